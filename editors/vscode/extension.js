// Starts `lmm lsp`, and does what the protocol has no request for: folding, one step of undo for a reply, asking for words.
"use strict";

const { spawn } = require("node:child_process");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const LANGUAGES = ["markdown", "rmd", "quarto", "chatmd"];
const INSTALL = "pip install 'lmmarkdown[editor]'";
let client;

function activate(context) {
  const register = (name, act) => context.subscriptions.push(vscode.commands.registerCommand(name, act));
  register("lmm.fold", fold);
  register("lmmarkdown.askAll", () => execute("lmm.ask", 0));
  register("lmmarkdown.takeBack", () => execute("lmm.undo"));
  register("lmmarkdown.searchCourse", searchCourse);
  start(); // not awaited: the commands are there meanwhile
}

async function start() {
  const command = setting("command");
  if (!(await runs(command))) {
    return offerToInstall(command);
  }
  client = new LanguageClient("lmm", "LM Markdown", { command, args: ["lsp"] }, {
    documentSelector: LANGUAGES.map((language) => ({ language })),
    initializationOptions: { stream: setting("stream"), fold: true },
    middleware: { workspace: { handleApplyEdit: applyEdit } },
  });
  await client.start();
}

function setting(name) {
  return vscode.workspace.getConfiguration("lmm").get(name);
}

function runs(command) {
  return new Promise((resolve) => {
    const child = spawn(command, ["lsp"], { stdio: "ignore" }); // ends at once; without the extra editor, badly
    child.on("error", () => resolve(false));
    child.on("exit", (code) => resolve(code === 0));
  });
}

async function offerToInstall(command) {
  const chosen = await vscode.window.showErrorMessage(`'${command} lsp' cannot be started.`, "Install it", "Settings", "Try again");
  if (chosen === "Install it") {
    const terminal = vscode.window.createTerminal("LM Markdown");
    terminal.show();
    terminal.sendText(INSTALL, false); // you press Enter
  } else if (chosen === "Settings") {
    await vscode.commands.executeCommand("workbench.action.openSettings", "lmm.command");
  }
  return chosen && start();
}

// A reply arrives in pieces, each a change: without a stop between them, one undo takes all of them back.
const streaming = new Map();

async function applyEdit(params, next) {
  const [change, more] = params.edit.documentChanges ?? [];
  const editor = change && vscode.window.visibleTextEditors.find((one) => one.document.uri.toString() === vscode.Uri.parse(change.textDocument.uri).toString());
  if (!editor || more || !["lmm: reply", "lmm: run"].includes(params.label)) {
    return next(params);
  }
  const uri = change.textDocument.uri;
  if (change.textDocument.version !== null && change.textDocument.version !== editor.document.version) {
    return { applied: false };
  }
  const follows = streaming.get(uri) === editor.document.version;
  const applied = await editor.edit((builder) => {
    for (const { range, newText } of change.edits) {
      builder.replace(client.protocol2CodeConverter.asRange(range), newText);
    }
  }, { undoStopBefore: !follows, undoStopAfter: false });
  streaming.set(uri, editor.document.version);
  return { applied };
}

function active() {
  return vscode.window.activeTextEditor;
}

async function execute(command, ...more) {
  if (active() && client) {
    return vscode.commands.executeCommand(command, active().document.uri.toString(), ...more);
  }
}

async function fold(uri, line) {
  await vscode.commands.executeCommand("editor.fold", { selectionLines: [line - 1] });
}

async function searchCourse() {
  const editor = active();
  const question = editor && (await vscode.window.showInputBox({ prompt: "What do you look for in the course?" }));
  if (!question) {
    return;
  }
  const found = (await execute("lmm.searchCourse", question)) ?? [];
  const items = found.map((hit) => ({ label: hit.title, description: hit.place, detail: hit.text, hit }));
  const chosen = await vscode.window.showQuickPick(items, { matchOnDetail: true });
  const how = chosen && (await vscode.window.showQuickPick(["Insert a quotation", "Insert a link"]));
  if (how) {
    const text = how === "Insert a link" ? chosen.hit.link : chosen.hit.quotation;
    await editor.edit((builder) => builder.insert(editor.selection.active, text));
  }
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };
