"""From files to a store. Read in this order what one call of `lmm ingest` does:

1. `ingest`: find the files (`source_files`), read them (`run.read_source`, `known_files`, `plan.read_file`), plan what
   must change (`plan`), write that (`writing`), report (`reports`).
2. `prepare`: one document in memory. Its blocks are read once (`outline`, after `near_types`) and made readable once
   (`readers`); `steps` pools them and takes sections and chunks out of them, `packing` and `splitting` choose where to
   cut. Each block knows its lines, its types, and thereby its readers.
3. `prepared`: the same as files to review; `findings`: what its author should know.
4. `stored`: what is there already, found by name, removed, withheld.
"""
