# RStudio's addins and the knit hook; `lmm` must be on the path, or options(lmm = "/path/to/lmm") be set.

# Runs lmm in an environment without the library path of R's own start script, which would precede Python's libraries.
lmm <- function(...) {
  kept <- Sys.getenv("LD_LIBRARY_PATH", NA)
  if (!is.na(kept)) {
    Sys.unsetenv("LD_LIBRARY_PATH")
    on.exit(Sys.setenv(LD_LIBRARY_PATH = kept))
  }
  notes <- tempfile()
  out <- suppressWarnings(system2(getOption("lmm", "lmm"), shQuote(c(...)), stdout = TRUE, stderr = notes))
  status <- if (is.null(attr(out, "status"))) 0 else attr(out, "status")
  said <- c(out, if (file.exists(notes)) readLines(notes, encoding = "UTF-8", warn = FALSE))
  unlink(notes)
  attributes(out) <- NULL
  list(ok = status == 0, status = status, out = out, said = paste(said, collapse = "\n"))
}

# The first line of the metadata block around (or right before) a line, which lmm expects; 0 if there is none.
block_at <- function(lines, line) {
  opened <- 0
  for (i in seq_len(min(line, length(lines)))) {
    if (grepl("^(---|\\.\\.\\.)\\s*(#.*)?$", lines[i])) {
      if (opened > 0) {
        if (line <= i) return(opened)
        opened <- 0
      } else if (i < length(lines) && grepl("\\S", lines[i + 1]) && startsWith(lines[i], "---")) {
        opened <- i
      }
    }
  }
  opened
}

# Runs an addin: saves the document, runs lmm on it, shows its output; RStudio reloads the file by itself.
on_document <- function(verb, options = function(context) character()) {
  context <- rstudioapi::getSourceEditorContext()
  if (is.null(context) || !nzchar(context$path)) stop("save the document first: lmm works on files", call. = FALSE)
  given <- options(context)
  rstudioapi::documentSave(context$id)
  done <- lmm(verb, given, path.expand(context$path))
  if (!done$ok) stop(done$said, call. = FALSE)
  message(done$said)
  invisible(done$said)
}

line_of <- function(context) {
  unname(rstudioapi::primary_selection(context)$range$start[["row"]])
}

addin_answer <- function() on_document("messages")

addin_answer_here <- function() {
  on_document("messages", function(context) {
    line <- block_at(context$contents, line_of(context))
    if (line == 0) stop("there is no metadata block here, in which a question could stand", call. = FALSE)
    c("--at", line)
  })
}

addin_accept_here <- function() on_document("accept", function(context) c("--line", line_of(context)))

addin_reject_here <- function() on_document("reject", function(context) c("--line", line_of(context)))

addin_scan <- function() on_document("scan", function(context) "--check")

# knit: lmmarkdown::knit in the header: renders the notes without chats, pending edits and special material.
knit <- function(input, ...) {
  clean <- file.path(dirname(input), paste0(".lmm-", basename(input)))
  on.exit(unlink(clean))
  done <- lmm("export", "--keep-lines", input, "-o", clean)
  if (!done$ok) stop(done$said, call. = FALSE)
  rmarkdown::render(clean, output_file = tools::file_path_sans_ext(basename(input)), ...)
}
