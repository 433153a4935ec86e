"""What oncue tells of its nouns, a file per noun: one definition of each record.

The shell's `--json` and the API's answers are `document`s of these records, the OpenAPI document describes them, and
the client returns them. They are plain dataclasses: FastAPI reads them as they are, and a command that lists jobs needs
no pydantic. The text below a field is its description.
"""
