# Ask, search, edit and extract from scripts: what `lmm` reports as JSON or CSV, as lists and data frames. Errors are
# conditions of class "lmm_error"; those of wrong usage or missing agreement also "lmm_usage_error".

# Answers a question from the course in the current folder: a list with `answer`, `sources` (a data frame), `model`.
lmm_ask <- function(question, model = NULL, ...) {
  said <- lmm_json("ask", "--json", named(model = model, ...), "--", question)
  sources <- do.call(rbind, lapply(said$sources, place_of))
  structure(list(answer = said$answer, found = said$found, sources = sources, model = said$model, cost = said$cost),
            class = "lmm_answer")
}

format.lmm_answer <- function(x, ...) {
  s <- x$sources
  c(x$answer, if (!is.null(s)) sprintf("[%s] %s:%d-%d %s", s$number, s$file, s$first, s$last, s$title))
}

print.lmm_answer <- function(x, ...) {
  cat(format(x), sep = "\n")
  invisible(x)
}

# Passages of the course: a data frame with score, file, lines, title, type and text.
lmm_search <- function(question, limit = 5, ...) {
  said <- lmm_json("search", "--json", named(limit = limit, ...), "--", question)
  rows <- lapply(said$hits, function(hit) cbind(place_of(hit), score = hit$score, text = hit$text))
  if (length(rows)) do.call(rbind, rows) else data.frame()
}

# A new version of a text, by a model; nothing is written to your files.
lmm_edit <- function(text, prompt, model = NULL, ...) {
  file <- tempfile(fileext = ".md")
  on.exit(unlink(file))
  header <- c("---", "title: text", "---", "", "---", paste("=:", gsub("\\s+", " ", prompt)), "---")
  writeLines(c(header, text), file, useBytes = TRUE)
  lmm_run("messages", named(model = model, ...), file)
  lmm_run("accept", file)
  lines <- readLines(file, encoding = "UTF-8", warn = FALSE)
  ends <- which(lines == "---")[2] # of the header; what was a question is gone
  paste(trimws(paste(lines[-seq_len(ends)], collapse = "\n")), collapse = "\n")
}

# One row per section: a schema (a file, or `module:Model`) filled by a model from documents.
lmm_extract <- function(schema, paths, model = NULL, ...) {
  file <- tempfile(fileext = ".csv")
  on.exit(unlink(file))
  lmm_run("extract", named(model = model, ...), "-o", file, "--", schema, path.expand(paths))
  utils::read.csv(file, check.names = FALSE, encoding = "UTF-8")
}

place_of <- function(each) {
  lines <- unlist(each$lines)
  data.frame(number = if (is.null(each$number)) NA else each$number, file = each$file, first = lines[1],
             last = lines[length(lines)], title = each$title, type = each$type)
}

# Arguments such as limit = 3, type = c("a", "b"), agent = TRUE as options of the command; NULL is left out.
named <- function(...) {
  given <- list(...)
  unlist(lapply(names(given), function(name) {
    option <- paste0("--", gsub("_", "-", name))
    if (isTRUE(given[[name]])) option else as.vector(rbind(rep(option, length(given[[name]])), given[[name]]))
  }))
}

lmm_json <- function(...) {
  if (!requireNamespace("jsonlite", quietly = TRUE)) stop("install.packages(\"jsonlite\")", call. = FALSE)
  jsonlite::fromJSON(paste(lmm_run(..., some = TRUE), collapse = "\n"), simplifyVector = FALSE)
}

# What lmm prints; notes become messages. With `some`, output is enough, whatever the exit code (nothing was found: 1).
lmm_run <- function(..., some = FALSE) {
  done <- lmm(...)
  if (!done$ok && !(some && length(done$out))) {
    kind <- c(if (done$status == 2) "lmm_usage_error", "lmm_error", "error", "condition")
    stop(structure(class = kind, list(message = sub("^lmm: ", "", done$said), call = NULL)))
  }
  done$out
}
