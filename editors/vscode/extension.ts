// Starts `lmm lsp`, and adds what the protocol lacks: asking for search words.
import { spawn } from "node:child_process";
import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";

const LANGUAGES = ["markdown", "rmd", "quarto", "chatmd"];
const INSTALL = "pip install 'lmmarkdown[editor]'";
let client: LanguageClient | undefined;

interface Hit {
  title: string;
  place: string;
  text: string;
  link: string;
  quotation: string;
}

export function activate(context: vscode.ExtensionContext): void {
  const register = (name: string, act: (...words: never[]) => unknown) => context.subscriptions.push(vscode.commands.registerCommand(name, act));
  register("lmmarkdown.askAll", () => execute("lmm.ask", 0));
  register("lmmarkdown.searchCourse", searchCourse);
  start().catch((error) => vscode.window.showErrorMessage(`LM Markdown: ${error}`)); // not awaited: the commands exist in the meantime
}

async function start(): Promise<void> {
  const command = setting<string>("command");
  const reason = await failure(command);
  if (reason) {
    return offerToInstall(command, reason);
  }
  client = new LanguageClient("lmm", "LM Markdown", { command, args: ["lsp"] }, {
    documentSelector: LANGUAGES.map((language) => ({ language })),
  });
  await client.start();
}

function setting<T>(name: string): T {
  return vscode.workspace.getConfiguration("lmm").get(name) as T;
}

// Why the command does not start; empty if it does. Without input it ends at once, with an error if `editor` is missing.
function failure(command: string): Promise<string> {
  return new Promise((resolve) => {
    const child = spawn(command, ["lsp"], { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (data) => (said += data));
    child.on("error", (error) => resolve(error.message));
    child.on("close", (code, signal) => resolve(code === 0 ? "" : said.trim() || `it ended with ${signal ?? code}`));
  });
}

async function offerToInstall(command: string, reason: string): Promise<void> {
  const chosen = await vscode.window.showErrorMessage(`'${command} lsp' cannot be started: ${reason}`, "Install it", "Settings", "Try again");
  if (chosen === "Install it") {
    const terminal = vscode.window.createTerminal("LM Markdown");
    terminal.show();
    terminal.sendText(INSTALL, false); // you press Enter
  } else if (chosen === "Settings") {
    await vscode.commands.executeCommand("workbench.action.openSettings", "lmm.command");
  }
  if (chosen) {
    await start();
  }
}

function active(): vscode.TextEditor | undefined {
  return vscode.window.activeTextEditor;
}

async function execute<T>(command: string, ...more: unknown[]): Promise<T | undefined> {
  const editor = active();
  if (editor && client) {
    return vscode.commands.executeCommand<T>(command, editor.document.uri.toString(), ...more);
  }
}

async function searchCourse(): Promise<void> {
  const editor = active();
  const question = editor && (await vscode.window.showInputBox({ prompt: "What do you look for in the course?" }));
  if (!question) {
    return;
  }
  const found = (await execute<Hit[]>("lmm.searchCourse", question)) ?? [];
  const items = found.map((hit) => ({ label: hit.title, description: hit.place, detail: hit.text, hit }));
  const chosen = await vscode.window.showQuickPick(items, { matchOnDetail: true });
  const how = chosen && (await vscode.window.showQuickPick(["Insert a quotation", "Insert a link"]));
  if (editor && chosen && how) {
    const text = how === "Insert a link" ? chosen.hit.link : chosen.hit.quotation;
    await editor.edit((builder) => builder.insert(editor.selection.active, text));
  }
}

export function deactivate(): Promise<void> | undefined {
  return client?.stop();
}
