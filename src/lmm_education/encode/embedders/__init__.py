"""What turns texts into vectors: one file per kind of adapter; `lmm_education.encode.embed` opens them."""
