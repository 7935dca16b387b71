"""`open_course`: `Course.open`, as it was called at first."""

from lmm_education.course import Course as Course, open_course as open_course
