"""What turns texts into vectors: one file per kind of adapter; `lmm.models.embed` opens them."""
