/* Reads the frames of this thread through CPython's own internal headers, of the version that runs.
 * A thread inside a call to C cannot change its own frames, so reading them needs no GIL. The symbols
 * are weak: the library is also loaded into programs that are not Python. */
#ifdef ONELAYER_PYTHON
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_frame.h>

#pragma weak PyGILState_GetThisThreadState
#pragma weak PyCode_Addr2Line
#pragma weak PyCode_Type

struct onelayer_place {
    const void* code;
    int line;
};

static _PyInterpreterFrame* first_frame(PyThreadState* state) {
#if PY_VERSION_HEX >= 0x030D0000
    return state->current_frame;
#else
    return state->cframe ? state->cframe->current_frame : NULL;
#endif
}

static PyCodeObject* code_of(_PyInterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* code = frame->f_executable;
#else
    PyObject* code = (PyObject*)frame->f_code;
#endif
    /* An entry of the C stack into the interpreter has a frame too, and no code of its own. */
    return code && Py_TYPE(code) == &PyCode_Type ? (PyCodeObject*)code : NULL;
}

int onelayer_python_lines(struct onelayer_place* places, int room) {
    if (!PyGILState_GetThisThreadState) return 0;
    PyThreadState* state = PyGILState_GetThisThreadState();
    int n = 0;
    for (_PyInterpreterFrame* f = state ? first_frame(state) : NULL; f && n < room; f = f->previous) {
        PyCodeObject* code = code_of(f);
        if (!code || !code->co_filename) continue;
        int offset = (int)(_PyInterpreterFrame_LASTI(f) * sizeof(_Py_CODEUNIT));
        places[n].code = code;
        places[n++].line = PyCode_Addr2Line(code, offset);
    }
    return n;
}

static int put(char* text, int at, int room, Py_UCS4 c) {
    if (c < 0x20 || c == '|') c = ' '; /* the separators of the log */
    if (c < 0x80 && at + 1 < room) text[at++] = (char)c;
    else if (c < 0x800 && at + 2 < room) text[at++] = (char)(0xC0 | c >> 6), text[at++] = (char)(0x80 | (c & 63));
    else if (c >= 0x800 && at + 1 < room) text[at++] = '?';
    return at;
}

static int put_text(char* text, int at, int room, PyObject* s) {
    for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(s); i++) at = put(text, at, room, PyUnicode_READ_CHAR(s, i));
    return at;
}

void onelayer_python_name(const void* code, char* text, int room) {
    PyCodeObject* c = (PyCodeObject*)code;
    int at = put_text(text, 0, room, c->co_filename);
    if (at + 1 < room) text[at++] = '\t';
    at = put_text(text, at, room, c->co_name);
    text[at < room ? at : room - 1] = 0;
}
#else /* no headers of Python on this machine: calls are then told without their lines */
struct onelayer_place;
int onelayer_python_lines(struct onelayer_place* places, int room) { return 0 * room * !places; }
void onelayer_python_name(const void* code, char* text, int room) { if (code && room) *text = 0; }
#endif
