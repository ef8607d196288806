"""The script that runs a program inside the sandbox: `code_guard` starts an interpreter for it. It is never imported.

`python -I -S -c <this file>` reads its job from descriptor 0 (marshalled: path, answer, tests, token, user_id) and
writes to descriptor 3 how the program ended: its error, or flags, a line end and the token. Whoever writes the token
has passed, so the program must not find it. It is held by C objects alone (`functools.partial` in a `map`): no frame's
locals, global name, file or environment has it, nor the text of the tests. What leads to objects without a reference
(the collector, memory by address, native code) ends the program (`end_on_inspection`), and ctypes was never loaded in
this interpreter. The answer is compiled apart from the tests, so it can neither swallow nor decode their text.

Flags are what the answer changed that the tests rely on, or objects of its own that they compared. They are gathered
in the program's process: an answer that knows this file can evade them.
Only Python's standard library is available here; what it imports, every program waits for.
"""

# ruff: noqa: PTH120 - pathlib takes long to import

import _ast
import _collections  # type: ignore[import-not-found] # collections takes longer to import
import _imp
import _thread
import builtins
import marshal
import os
import sys
import types
from contextlib import suppress
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    _Path = tuple[str, ...]  # a module and attributes

VERDICT = 3
_PLAIN = frozenset({int, float, complex, str, bytes, bytearray, bool, type(None), range})
_MOST_ELEMENTS = 1000  # of one compared value
_DECIDING = frozenset({
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__contains__", "__sub__", "__rsub__",
    "__abs__", "__instancecheck__", "__subclasscheck__", "__class__",
})  # fmt: skip
_FAKES = ("/unittest/mock.py", "/test/support/__init__.py")  # the standard library's objects equal to everything
_ENUM = "/enum.py"  # whose members compare as the native values that they are

# ------------------------------------------------------------------------------------------------ what ends a program

# events of `sys.addaudithook` that no answer to a programming problem needs, and that lead to every object
INSPECTING = frozenset({
    "gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames", "sys._current_exceptions",
    "sys.settrace", "sys.setprofile", "sys.addaudithook", "sys.monitoring.register_callback",
})  # fmt: skip
FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
NAMING = ("/collections/__init__.py", "/typing.py", "/enum.py")  # they read a caller's name and return no frame
HANDING_OUT = frozenset({"walk_stack", "walk_tb", "currentframe"})  # to be called by their own module only
# native code that reads memory by address, or starts an interpreter without this one's audit hook
REFUSED = frozenset({
    "ctypes", "_ctypes", "_ctypes_test", "cffi", "_cffi_backend", "_xxsubinterpreters", "_interpreters", "_testcapi",
    "_testinternalcapi", "_testlimitedcapi", "_testbuffer", "_testclinic",
})  # fmt: skip


def end_on_inspection(program: str) -> None:
    """End this process, with the reason as its verdict, when the program reaches for frames, memory or native code.

    The standard library may use frames (tracebacks, logging, unittest) as long as it does not hand them to the program.
    The hook uses nothing that the program can replace: local names, functions of C, and texts that are no subclass.
    """
    write, leave, frame_of, ident = os.write, os._exit, sys._getframe, _thread.get_ident  # noqa: SLF001 - documented
    text, octets, kind_of, is_a, encode = str, bytes, type, isinstance, str.encode
    inspecting, frames, naming, handing_out, verdict = INSPECTING, FRAMES, NAMING, HANDING_OUT, VERDICT
    refused = frozenset(name.encode() for name in REFUSED)
    libraries = tuple(os.fsencode(folder) + b"/" for folder in (os.path.dirname(os.__file__), sys.base_exec_prefix))
    file_of_types, copied = types.__file__, bytes.__getitem__
    whole = slice(None)
    in_hook: set[int] = set()

    def exact(value: "Any") -> bytes:
        """Return a text or path as bytes; a subclass's methods would be the program's, and run unwatched."""
        if is_a(value, text):
            return encode(value, "utf-8", "surrogatepass")
        return copied(value, whole) if kind_of(value) is octets else b""

    def is_programs(frame: types.FrameType) -> bool:
        file = frame.f_code.co_filename
        if kind_of(file) is not text or file == program:
            return True
        return file.startswith("<") and not file.startswith("<frozen")

    def gets_frame(frame: types.FrameType) -> bool:
        code, above = frame.f_code, frame.f_back
        if is_programs(frame) or code.co_filename.endswith("/inspect.py"):
            return True
        if code.co_name in handing_out:
            return above is None or is_programs(above) or above.f_code.co_filename != code.co_filename
        return not code.co_filename.endswith(naming) and above is not None and is_programs(above)

    def is_caught(event: str, arguments: tuple[object, ...], caller: types.FrameType) -> bool:
        if event in inspecting:
            return True
        if event == "sys._getframe":
            return gets_frame(caller)
        if event == "object.__getattr__":
            return arguments[1] in frames and gets_frame(caller)
        if event == "import":  # of a dynamic library too, which then has a file
            name, file = exact(arguments[0]), exact(arguments[1])
            is_foreign = file != b"" and (not file.startswith(libraries) or b".." in file)
            return is_foreign or name.rpartition(b".")[2] in refused or name.partition(b".")[0] in refused
        if event in ("open", "os.symlink"):  # /proc/self/mem, by whatever way
            return exact(arguments[0]).rpartition(b"/")[2] == b"mem"
        if event == "compile":  # code in the name of a file of the standard library
            return b"/" in exact(arguments[1]) and is_programs(caller)
        return event == "code.__new__" and caller.f_code.co_filename != file_of_types

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        thread = ident()
        if thread in in_hook:  # this function's own look at frames
            return
        in_hook.add(thread)
        try:
            caught = is_caught(event, arguments, frame_of(1))
        finally:
            in_hook.discard(thread)
        if caught:
            name = arguments[0] if event == "import" else arguments[1] if event == "object.__getattr__" else event
            write(verdict, b"it inspects its interpreter (" + exact(name) + b")")
            leave(1)

    sys.addaudithook(hook)


def close_side_door() -> None:
    """Make built-in modules that are refused unreachable: loading one is not an audit event.

    Only interpreters that have them built in (static builds) are concerned. They lose the function that loads any
    built-in module, so all others are loaded first.
    """
    if not REFUSED.isdisjoint(sys.builtin_module_names):
        for name in sys.builtin_module_names:
            if name not in REFUSED and name not in {"_tkinter", "_curses", "_curses_panel"}:
                with suppress(ImportError):
                    __import__(name)
        del _imp.create_builtin


# ------------------------------------------------------------------------------------- what the tests rely on and see


def nodes_of(tree: _ast.AST) -> "list[_ast.AST]":
    """Return all nodes of a syntax tree; the module ast takes longer to import than most programs run."""
    nodes: list[_ast.AST] = []
    todo: list[object] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo += node
        elif isinstance(node, _ast.AST):
            nodes.append(node)
            todo += [getattr(node, field, None) for field in node._fields]
    return nodes


def bound_by(nodes: "list[_ast.AST]") -> "set[str]":
    """Return the names that a program binds itself, anywhere."""
    names = {node.id for node in nodes if type(node) is _ast.Name and type(node.ctx) is not _ast.Load}
    definitions = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)
    names |= {node.name for node in nodes if isinstance(node, definitions)}
    return names | {node.arg for node in nodes if type(node) is _ast.arg}


def imports_of(nodes: "list[_ast.AST]") -> "dict[str, _Path]":
    """Return the full names of a program's imports."""
    names: dict[str, _Path] = {}
    for node in nodes:
        if type(node) is _ast.Import:
            for each in node.names:
                names[each.asname or each.name.split(".")[0]] = (each.name if each.asname else each.name.split(".")[0],)
        elif type(node) is _ast.ImportFrom and node.module and not node.level:
            for each in node.names:
                names[each.asname or each.name] = (node.module, each.name)
    return names


def chain_of(node: _ast.AST) -> "_Path":
    """Return the names of `a.b.c`; empty for attributes of anything but a name."""
    names: list[str] = []
    while type(node) is _ast.Attribute:
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if type(node) is _ast.Name else ()


def values_of(path: "_Path") -> "tuple[object, ...]":
    """Return a module and what each further name of a path is; empty where something is missing."""
    try:
        __import__(path[0])
        values = [sys.modules[path[0]]]
        for name in path[1:]:
            values.append(getattr(values[-1], name))
    except Exception:  # noqa: BLE001 - the tests will say so themselves
        return ()
    return tuple(values)


def observe_calls(tree: _ast.AST, observer: str) -> None:
    """Wrap what a program calls, compares and calculates with in a function; values and lines stay as they are."""

    def wrapped(node: _ast.expr) -> _ast.expr:
        name = _ast.Name(id=observer, ctx=_ast.Load())
        call = _ast.Call(func=name, args=[node], keywords=[])
        for new in (name, call):
            for place in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
                setattr(new, place, getattr(node, place))
        return call

    def wrap_operand(node: _ast.expr) -> _ast.expr:
        return wrapped(node) if type(node) in {_ast.Name, _ast.Attribute, _ast.Subscript} else node

    def wrap_call(node: _ast.expr) -> _ast.expr:
        return wrapped(node) if type(node) is _ast.Call and getattr(node.func, "id", "") != observer else node

    nodes = nodes_of(tree)
    for node in nodes:
        if type(node) is _ast.Compare:
            node.left, node.comparators = wrap_operand(node.left), list(map(wrap_operand, node.comparators))
        elif type(node) is _ast.BinOp:
            node.left, node.right = wrap_operand(node.left), wrap_operand(node.right)
        elif type(node) is _ast.Call and getattr(node.func, "id", "") in {"isinstance", "issubclass"}:
            node.args = list(map(wrap_operand, node.args))
    for node in nodes:
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                value[:] = map(wrap_call, value)
            elif type(value) is _ast.Call:
                setattr(node, field, wrap_call(value))


class Tests:
    """The tests of one program: what of the standard library they use, and the types of what they compare."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.flags: set[str] = set()
        self._builtins = dict(vars(builtins))
        self._observer = "_observed_" + os.urandom(8).hex()
        self._names: set[str] = set()  # that the tests use and do not bind
        self._aliases: dict[str, _Path] = {}  # what the answer imports and the tests use
        self._kept: dict[_Path, tuple[object, ...]] = {}

    def read(self, source: str, answer: str) -> types.CodeType:
        """Return the tests' code, which observes what it compares; load the standard modules that it uses.

        Raises: SyntaxError, ValueError where one of both is not a program.
        """
        tree: Any = compile(source, "<tests>", "exec", _ast.PyCF_ONLY_AST)
        nodes = nodes_of(tree)
        self._names = {node.id for node in nodes if type(node) is _ast.Name} - bound_by(nodes)
        own = imports_of(nodes)
        others = imports_of(nodes_of(compile(answer, "<answer>", "exec", _ast.PyCF_ONLY_AST)))
        self._aliases = {name: path for name, path in others.items() if name in self._names and name not in own}
        roots = {**self._aliases, **own}
        chains = [chain_of(node) for node in nodes if type(node) is _ast.Attribute]
        used = {*roots.values(), *((*roots[chain[0]], *chain[1:]) for chain in chains if chain and chain[0] in roots)}
        standard: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())  # from Python 3.10 on
        self._kept = {path: values_of(path) for path in used if path[0].split(".")[0] in standard - REFUSED}
        observe_calls(tree, self._observer)
        code: types.CodeType = compile(tree, "<tests>", "exec", 0, dont_inherit=True)
        return code

    def observe(self, value: object) -> object:
        """Return the value; note where its class, or that of an element, decides itself what it is equal to."""
        kind = type(value)
        if kind not in _PLAIN and "equality" not in self.flags:
            todo, n_seen = [value], 0
            while todo and n_seen < _MOST_ELEMENTS:
                each = todo.pop()
                n_seen += 1
                if type(each) in _PLAIN:
                    continue
                if self._decides(type(each)):
                    self.flags.add("equality")
                    break
                todo += elements_of(each)
        return value

    def _decides(self, kind: type) -> bool:
        """Return whether a class, or its metaclass, has a comparison that is not the standard library's.

        A class of the program has one where it holds one itself, whatever that is (`__eq__ = int.__ne__`), or inherits
        one that is written in Python, which asks the program's own attributes.
        """
        return any(decides(classes) for classes in (_classes_of(kind), _classes_of(type(kind))))

    def look(self, names: dict[str, object]) -> None:
        """Note what of all that the tests use is not what it was before the answer."""
        if any(vars(builtins).get(name) is not value for name, value in self._builtins.items() if name != "_"):
            self.flags.add("built-in names")
        defined = [name in self._builtins for name in self._names if name in names]
        if any(defined) and not all(defined):  # the function under test may be named like one: it is then the only one
            self.flags.add("built-in names")
        for path, values in self._kept.items():
            now = values_of(path)
            if values and not (len(now) == len(values) and all(map(are_same, values, now))):
                self.flags.add("other modules")
        for name, path in self._aliases.items():
            if self._kept.get(path) and name in names and not are_same(names[name], self._kept[path][-1]):
                self.flags.add("other modules")
        names["__builtins__"] = builtins
        names[self._observer] = self.observe


_classes_of = type.__dict__["__mro__"].__get__
_attributes_of = type.__dict__["__dict__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: the class was made while the interpreter runs
_LIBRARY = os.path.dirname(os.__file__) + "/"
_SLOTS = frozenset({types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType})


def decides(classes: "tuple[type, ...]") -> bool:
    """Return whether the classes that a class inherits from, with itself, have a comparison of the program's."""
    are_librarys = list(map(is_librarys, classes))
    for each, is_known in zip(classes, are_librarys):  # noqa: B905 - strict came with Python 3.10
        for name in _DECIDING.intersection(_attributes_of(each)):
            method = _attributes_of(each)[name]
            if method is None:  # there is no such method
                continue
            if not is_known:
                return True
            if type(method) is types.FunctionType:
                file = method.__code__.co_filename
                if not file.startswith((_LIBRARY, "<frozen")) or file.endswith(_FAKES):
                    return True
                if not all(are_librarys) and not file.endswith(_ENUM):
                    return True
            elif _flags_of(each) & _HEAP and not (
                type(method) in _SLOTS and method.__name__ == name and method.__objclass__ is each
            ):
                return True
    return False


def is_librarys(kind: type) -> bool:
    """Return whether a class is the interpreter's, or is found under its name in a module of the standard library."""
    if not _flags_of(kind) & _HEAP:
        return True
    module = str(_attributes_of(kind).get("__module__"))
    found: object = sys.modules.get(module) or sys.modules.get(f"_{module.replace('.', '_')}")  # _collections_abc
    file = str(getattr(found, "__file__", None) or _LIBRARY)  # modules within the interpreter have no file
    if type(found) is not types.ModuleType or module == "__main__" or not file.startswith(_LIBRARY):
        return False
    for name in _qualname_of(kind).split("."):
        found = getattr(found, name, None)
    return found is kind


def elements_of(value: "Any") -> "list[object]":
    """Return the elements of a value as native comparisons see them, whatever the methods of a subclass say."""
    kind = type(value)
    for native in (list, tuple, set, frozenset, _collections.deque):
        if native in _classes_of(kind):
            return [each for each, _ in zip(native.__iter__(value), range(_MOST_ELEMENTS))]  # noqa: B905
    if dict in _classes_of(kind):
        return [*dict.keys(value), *dict.values(value)][:_MOST_ELEMENTS]
    if types.SimpleNamespace in _classes_of(kind):
        return list(object.__getattribute__(value, "__dict__").values())[:_MOST_ELEMENTS]
    return []


def are_same(value: object, other: object) -> bool:
    """Return whether two values are one; methods of native classes are a new object at each look."""
    if value is other:
        return True
    return type(value) is type(other) in {types.BuiltinFunctionType, types.MethodWrapperType} and value == other


# --------------------------------------------------------------------------------------------------------- the running


def calls_of_job() -> "map[object]":
    """Read the job and return the calls that run it, the last of which writes the token.

    The caller must not bind them to a name: a frame's locals can be read.
    """
    pieces = []
    while piece := os.read(0, 1 << 20):
        pieces.append(piece)
    job = marshal.loads(b"".join(pieces))  # noqa: S302 - from the guard
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    if job["user_id"] and os.getuid() == 0:  # after the start of this interpreter: it also closes /proc/self/mem
        os.setgroups([])
        os.setresgid(*[job["user_id"]] * 3)
        os.setresuid(*[job["user_id"]] * 3)
    path, here, process_id, write, leave = job["path"], os.getpid(), os.getpid, os.write, os._exit
    names: dict[str, object] = {"__name__": "<run_path>", "__file__": path, "__doc__": None}

    def end_fork() -> None:
        if process_id() != here:
            leave(0)

    calls: list[partial[Any]] = [partial(exec, compile(job["answer"], path, "exec"), names)]
    if job["tests"]:
        tests = Tests()
        code = tests.read(job["tests"], job["answer"])
        calls += [partial(tests.look, names), partial(exec, code, names), partial(tests.look, names)]
        calls += [partial(end_fork), partial(write_flags, write, tests.flags)]
    else:
        calls += [partial(end_fork)]
    calls += [partial(write, VERDICT, b"\n" + job["token"])]
    close_side_door()
    end_on_inspection(path)
    return map(partial.__call__, calls)


def write_flags(write: "Callable[[int, bytes], int]", flags: "set[str]") -> None:
    """Write the flags, in the verdict's form."""
    write(VERDICT, ",".join(sorted(flags)).encode())


def main() -> None:
    """Run the program in this process, write to `VERDICT` how it ended, and exit; handlers of `atexit` are not run."""
    result, here = b"", os.getpid()
    write, leave, process_id = os.write, os._exit, os.getpid
    try:
        list(calls_of_job())
    except MemoryError:
        result = b"MemoryError"
    except BaseException as error:  # noqa: BLE001 - whatever a program raises, SystemExit too, is its failure
        result = f"{type(error).__name__}: {error}"[:300].encode("utf-8", "replace")
    if result and process_id() == here:  # not in a fork of the program
        with suppress(OSError):
            write(VERDICT, result)
    leave(0)


if __name__ == "__main__":
    main()
