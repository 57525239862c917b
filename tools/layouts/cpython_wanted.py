"""What layouts/cpython.def holds: the structs, where their debug information is, and what is renamed."""

# Structs of the interpreter itself. All their fields are taken, with nested ones as "outer.inner".
CORE = """
    PyObject PyVarObject PyGC_Head PyTypeObject PyHeapTypeObject
    PyDictObject PyDictKeysObject PyDictValues PyDictKeyEntry PyDictUnicodeEntry PyODictObject _odictnode
    PyListObject PyTupleObject PySetObject setentry PySliceObject PyCellObject PyCapsule
    PyBytesObject PyByteArrayObject PyASCIIObject PyCompactUnicodeObject PyUnicodeObject
    PyLongObject PyIntObject PyFloatObject PyComplexObject
    PyCodeObject _PyCodeObjectExtra _PyCoCached PyFunctionObject PyFrameObject _PyInterpreterFrame _PyStackChunk
    PyGenObject PyCoroObject PyAsyncGenObject PyTracebackObject PyBaseExceptionObject
    PyModuleObject PyMethodObject PyInstanceMethodObject PyCFunctionObject PyCMethodObject PyWeakReference
    PyMemoryViewObject _PyManagedBufferObject PyInstanceObject PyClassObject
    PyDescrObject PyMethodDescrObject PyMemberDescrObject PyGetSetDescrObject PyWrapperDescrObject wrapperobject
    propertyobject classmethod staticmethod superobject mappingproxyobject gaobject unionobject
    _PyNamespaceObject rangeobject enumobject reversedobject seqiterobject calliterobject
    listiterobject tupleiterobject dictiterobject setiterobject _PyDictViewObject
    PyContext PyContextVar PyHamtObject PyHamtNode_Bitmap PyHamtNode_Array PyHamtNode_Collision
    PySTEntryObject PatternObject MatchObject
    pool_header arena_object _obmalloc_state mi_page_t mi_segment_t mi_heap_t
    _Py_DebugOffsets
""".split()

# Structs of extension modules; a module that is built in is looked for in the interpreter.
MODULES = {
    "array": "arrayobject",
    "itertools": "teedataobject teeobject",
    "_asyncio": "FutureObj TaskObj",
    "_collections": "dequeobject BLOCK defdictobject",
    "_csv": "ReaderObj WriterObj DialectObj",
    "_ctypes": "CDataObject",
    "_decimal": "PyDecObject",
    "_elementtree": "ElementObject ElementObjectExtra TreeBuilderObject",
    "_functools": "partialobject lru_cache_object lru_list_elem",
    "_io": "buffered bytesio stringio textio fileio",
    "_pickle": "PicklerObject UnpicklerObject Pdata PyMemoTable",
    "_queue": "simplequeueobject",
    "_struct": "PyStructObject formatcode",
    "mmap": "mmap_object",
}

# These drift inside a minor series (facts/cpython.md), so only their size is written, as a hint.
SIZE_ONLY = {"_PyRuntimeState", "PyInterpreterState", "PyThreadState", "_PyThreadStateImpl", "_gc_runtime_state"}

# Members that are structs, but not opened: tables of function pointers, and structs that stand for themselves.
SHALLOW = {"PyTypeObject", "PyHeapTypeObject"}

# One idea, one name. The .def's name on the left, CPython's other names on the right.
STRUCT_NAMES = {
    "PyBytesObject": ["PyStringObject"],  # 2.7
    "PyDictKeyEntry": ["PyDictEntry"],  # 2.7
    "PyFrameObject": ["struct _frame"],
    "listiterobject": ["_PyListIterObject"],  # 3.12+
    "tupleiterobject": ["_PyTupleIterObject"],  # 3.12+
    "mi_page_t": ["struct mi_page_s"],
    "mi_segment_t": ["struct mi_segment_s"],
    "mi_heap_t": ["struct mi_heap_s"],
    "_PyManagedBufferObject": ["PyManagedBufferObject"],
    "mappingproxyobject": ["proxyobject"],  # 2.7
    "_PyDictViewObject": ["dictviewobject"],  # 2.7
}

# (struct, CPython's name of the field): name in the .def
FIELD_NAMES = {
    ("PyGC_Head", "gc.gc_next"): "gc_next",  # 2.7..3.7
    ("PyGC_Head", "gc.gc_prev"): "gc_prev",
    ("PyGC_Head", "gc.gc_refs"): "gc_refs",
    ("PyGC_Head", "_gc_next"): "gc_next",  # 3.8+
    ("PyGC_Head", "_gc_prev"): "gc_prev",
    ("_PyInterpreterFrame", "f_code"): "f_executable",  # 3.11, 3.12
    ("_PyInterpreterFrame", "f_func"): "f_funcobj",  # 3.11
}

# Members that are only a wrapper: PyDictObject.ob_base.ob_type is called "ob_type", as it was in 2.7.
FLATTENED = {"ob_base", "_base", "d_common", "long_value"}

# Macros that DWARF doesn't have, from the installed headers where those define them.
MACROS = """
    Py_TPFLAGS_INLINE_VALUES Py_TPFLAGS_MANAGED_WEAKREF Py_TPFLAGS_MANAGED_DICT Py_TPFLAGS_PREHEADER
    Py_TPFLAGS_HEAPTYPE Py_TPFLAGS_BASETYPE Py_TPFLAGS_READY Py_TPFLAGS_HAVE_GC Py_TPFLAGS_IMMUTABLETYPE
    Py_TPFLAGS_INT_SUBCLASS Py_TPFLAGS_LONG_SUBCLASS Py_TPFLAGS_LIST_SUBCLASS Py_TPFLAGS_TUPLE_SUBCLASS
    Py_TPFLAGS_STRING_SUBCLASS Py_TPFLAGS_BYTES_SUBCLASS Py_TPFLAGS_UNICODE_SUBCLASS Py_TPFLAGS_DICT_SUBCLASS
    Py_TPFLAGS_BASE_EXC_SUBCLASS Py_TPFLAGS_TYPE_SUBCLASS
    SSTATE_NOT_INTERNED SSTATE_INTERNED_MORTAL SSTATE_INTERNED_IMMORTAL SSTATE_INTERNED_IMMORTAL_STATIC
    POOL_SIZE ARENA_SIZE ALIGNMENT NB_SMALL_SIZE_CLASSES SMALL_REQUEST_THRESHOLD
""".split()

# Enumerators that DWARF has, by the enum's name.
ENUMS = ["enum _framestate", "enum _frameowner", "enum _framestate_enum", "enum PyUnicode_Kind", "DictKeysKind",
         "mi_segment_kind_t", "mi_page_kind_t"]


def lookup_names(name):
    """The names under which DWARF may know a struct, the likeliest first."""
    return [name, "struct " + name] + STRUCT_NAMES.get(name, [])


def field_name(struct, path):
    """The .def's name of a member, given the names on the way to it; None for a flattened wrapper itself."""
    if path[-1] in FLATTENED:
        return None
    real = ".".join(p for p in path if p not in FLATTENED)
    return FIELD_NAMES.get((struct, real), real)
