"""Where the code of process tasks is: how a worker names it, and how a child process finds it again.

A child starts from nothing and imports what the worker has imported. Declaring a process task enters it here, in the
worker and in the child alike. Nothing is looked up by a name from the database.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from oncue.engine.messages import CodePlace

if TYPE_CHECKING:
    from oncue.task import Task

SCRIPT = "__oncue_script__"
"""What a child calls the program itself, so that it does nothing below its `if __name__ == "__main__":`."""

_declared: WeakValueDictionary[tuple[str, str, str], Task[Any, Any]] = WeakValueDictionary()


def declare(task: Task[Any, Any], declared_in: str | None) -> CodePlace:
    """Enter a task, and name its place. Raises ValueError if a child could not find it."""
    function = task.function
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module is None or qualname is None or "<locals>" in qualname:
        raise _refusal(task, "is not at the top level of a module")
    modules = [_importable(name, task) for name in dict.fromkeys((module, declared_in or module))]
    _declared[modules[0], qualname, task.name] = task
    return CodePlace(tuple(modules), qualname, task.name, _program() if SCRIPT in modules else None)


def find(place: CodePlace) -> Task[Any, Any]:
    """The task that a worker has declared, in a child. Raises LookupError, and whatever its module raises."""
    key = (place.modules[0], place.qualname, place.task)
    for module in place.modules:
        if module != SCRIPT:
            importlib.import_module(module)
        elif SCRIPT not in sys.modules:
            _run(str(place.script))
        if (task := _declared.get(key)) is not None:
            return task
    where = " and ".join(place.script or "" if module == SCRIPT else module for module in place.modules)
    raise LookupError(
        f"a child process has imported {where}, and the task {place.task} was not declared by that; "
        "declare it at the top level of the module"
    )


def _importable(module: str, task: Task[Any, Any]) -> str:
    """The name under which a child can import a module, also if it is the program itself."""
    if module != "__main__":
        return module
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return str(spec.name)  # python -m package.module
    if _program() is None:
        raise _refusal(task, "was typed into an interpreter")
    return SCRIPT


def _program() -> str | None:
    """The file of the program, if there is one."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return os.path.abspath(file) if file is not None and os.path.isfile(file) else None


def _run(script: str) -> None:
    loader = SourceFileLoader(SCRIPT, script)
    spec = spec_from_loader(SCRIPT, loader)
    assert spec is not None
    module, before = module_from_spec(spec), sys.modules["__main__"]
    sys.modules[SCRIPT] = sys.modules["__main__"] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules["__main__"] = before
        del sys.modules[SCRIPT]
        raise


def _refusal(task: Task[Any, Any], why: str) -> ValueError:
    return ValueError(
        f"process: a child process could not import {task.name}, since it {why}; a process task is a function at "
        "the top level of a module"
    )
