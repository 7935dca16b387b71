"""The public names of this package, for type checkers, editors and `lmm.lazy_names`."""

from .document import BatchFailed as BatchFailed, Document as Document, Edit as Edit
from .errors import (
    Changed as Changed,
    ConfigError as ConfigError,
    DocumentBusy as DocumentBusy,
    DocumentError as DocumentError,
    EditError as EditError,
    EmptyReply as EmptyReply,
    FetchFailed as FetchFailed,
    FileReadError as FileReadError,
    FileWriteError as FileWriteError,
    Interrupted as Interrupted,
    LimitReached as LimitReached,
    LinkOutside as LinkOutside,
    LmmError as LmmError,
    MetadataError as MetadataError,
    ModelBusy as ModelBusy,
    ModelError as ModelError,
    ModelKeyMissing as ModelKeyMissing,
    ModelNotFound as ModelNotFound,
    ModelNotInstalled as ModelNotInstalled,
    ModelRejected as ModelRejected,
    ModelTimeout as ModelTimeout,
    ModelUnavailable as ModelUnavailable,
    NoValidReply as NoValidReply,
    PartlyFailed as PartlyFailed,
    Place as Place,
    TooLong as TooLong,
    Untrusted as Untrusted,
)
from .extraction import Record as Record
from .loop import Stopped as Stopped
from .messages import Attachment as Attachment
from .notebook.batch import batch_model as batch_model
from .notebook.generated_fields import Batch as Batch, FieldStatus as FieldStatus
from .pipeline import Report as Report
from .scan import aask as aask, aedit as aedit, ask as ask, edit as edit
