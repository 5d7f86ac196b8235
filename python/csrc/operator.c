/* operator.c: the operations of jit/ops.h, as operators of arrays and as functions. */
#include "bridge.h"
#include <string.h>

typedef struct operation {
    const char *name;
    int arity;
    bool masked; /* the first operand is bool, whatever the others are */
    union {
        jit_var (*of1)(jit_var a);
        jit_var (*of2)(jit_var a, jit_var b);
        jit_var (*of3)(jit_var a, jit_var b, jit_var c);
    } call;
} operation;

/* jit_div of integers truncates; in Python `/` is no division of integers. */
static jit_var true_divide(jit_var a, jit_var b) {
    jit_dtype type = jit_type(a);
    if (type >= JIT_f16)
        return jit_div(a, b);
    PyErr_Format(PyExc_TypeError,
                 "/ is not defined for %s: use // or jitc.div(), or cast to a float",
                 bridge_dtype_name(type));
    return 0;
}

enum {
#define OPERATION(name, function, arity, masked, text, doc) OP_##name,
#include "operations.def" /* made of jit/ops.h by operations.py */
#include "own_operations.def"
#undef OPERATION
    OPERATIONS
};
static const operation operations[] = {
#define OPERATION(name, function, arity, masked, text, doc)                                        \
    [OP_##name] = {text, arity, masked, {.of##arity = function}},
#include "operations.def"
#include "own_operations.def"
#undef OPERATION
};

/* One call. */
typedef struct call {
    const operation *op;
    PyObject *const *args;
    const bridge_array *model; /* numbers become literals of its type and backend */
    bridge_number numbers[3];
    const bridge_array *widest; /* the result has its shape */
} call;

static bool is_mask(const call *c, int i) {
    return c->op->masked && i == 0;
}

/* Arrays of one shape, and of one element, which go with each shape. */
static bool check_shapes(call *c) {
    for (int i = 0; i < c->op->arity; ++i) {
        const bridge_array *a = (const bridge_array *) c->args[i], *w = c->widest;
        if (!bridge_is_array(c->args[i]))
            continue;
        size_t size = jit_size(a->var), most = w ? jit_size(w->var) : 1;
        if (!w || (most == 1 && (size != 1 || a->ndim > w->ndim)))
            c->widest = a;
        else if (size != 1 && size == most &&
                 (a->ndim != w->ndim ||
                  memcmp(a->extents, w->extents, (size_t) a->ndim * sizeof *a->extents) != 0)) {
            PyErr_Format(PyExc_ValueError, "%s(): operands have different shapes: reshape() one",
                         c->op->name);
            return false;
        }
    }
    return true;
}

static bool find_model(call *c) {
    for (int i = c->op->arity; i-- > 0;)
        if (bridge_is_array(c->args[i]) && !is_mask(c, i))
            c->model = (const bridge_array *) c->args[i];
    if (!c->model)
        PyErr_Format(PyExc_TypeError, "%s(): %s has to be a jitc.Array", c->op->name,
                     c->op->masked ? "the second or third operand" : "an operand");
    return c->model && bridge_started();
}

/* May run code of Python, which may end the runtime. */
static bool read_numbers(call *c) {
    jit_dtype type = jit_type(c->model->var);
    for (int i = 0; i < c->op->arity; ++i)
        if (!bridge_is_array(c->args[i]) &&
            !bridge_number_read(c->args[i], is_mask(c, i) ? JIT_bool : type, &c->numbers[i]))
            return false;
    return bridge_started();
}

static jit_var operand(const call *c, int i) {
    if (bridge_is_array(c->args[i]))
        return jit_ref(((const bridge_array *) c->args[i])->var);
    return bridge_literal(jit_backend_of(c->model->var),
                          is_mask(c, i) ? JIT_bool : jit_type(c->model->var), c->numbers[i], 1);
}

static jit_var record(const call *c) {
    jit_var vars[3] = {0}, v;
    for (int i = 0; i < c->op->arity; ++i)
        vars[i] = operand(c, i);
    switch (c->op->arity) {
        case 1: v = c->op->call.of1(vars[0]); break;
        case 2: v = c->op->call.of2(vars[0], vars[1]); break;
        default: v = c->op->call.of3(vars[0], vars[1], vars[2]); break;
    }
    for (int i = 0; i < c->op->arity; ++i)
        jit_unref(vars[i]);
    return v;
}

static PyObject *operate(const operation *op, PyObject *const *args) {
    call c = {.op = op, .args = args};
    if (!find_model(&c) || !read_numbers(&c) || !check_shapes(&c))
        return NULL;
    return bridge_array_take(record(&c), c.widest->ndim, c.widest->extents);
}

/* The operators. */

static PyObject *binary(int op, PyObject *a, PyObject *b) {
    if ((bridge_is_array(a) || bridge_is_scalar(a)) && (bridge_is_array(b) || bridge_is_scalar(b)))
        return operate(&operations[op], (PyObject *const[]) {a, b});
    Py_RETURN_NOTIMPLEMENTED;
}

#define UNARY(name)                                                                                \
    static PyObject *operator_##name(PyObject *a) {                                                \
        return operate(&operations[OP_##name], &a);                                                \
    }
#define BINARY(name)                                                                               \
    static PyObject *operator_##name(PyObject *a, PyObject *b) {                                   \
        return binary(OP_##name, a, b);                                                            \
    }
UNARY(neg)
UNARY(abs)
UNARY(not)
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(true_divide)
BINARY(floor_divide)
BINARY(remainder)
BINARY(and)
BINARY(or)
BINARY(xor)
BINARY(shl)
BINARY(shr)
#undef UNARY
#undef BINARY

static PyObject *operator_pow(PyObject *a, PyObject *b, PyObject *modulus) {
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return binary(OP_pow, a, b);
}

static PyObject *operator_plus(PyObject *a) {
    Py_INCREF(a);
    return a;
}

static PyObject *compare(PyObject *a, PyObject *b, int how) {
    static const int ops[] = {[Py_LT] = OP_lt, [Py_LE] = OP_le, [Py_EQ] = OP_eq,
                              [Py_NE] = OP_ne, [Py_GT] = OP_gt, [Py_GE] = OP_ge};
    return binary(ops[how], a, b);
}

PyType_Slot bridge_operator_slots[] = {{Py_nb_negative, operator_neg},
                                       {Py_nb_positive, operator_plus},
                                       {Py_nb_absolute, operator_abs},
                                       {Py_nb_invert, operator_not},
                                       {Py_nb_add, operator_add},
                                       {Py_nb_subtract, operator_sub},
                                       {Py_nb_multiply, operator_mul},
                                       {Py_nb_true_divide, operator_true_divide},
                                       {Py_nb_floor_divide, operator_floor_divide},
                                       {Py_nb_remainder, operator_remainder},
                                       {Py_nb_power, operator_pow},
                                       {Py_nb_and, operator_and},
                                       {Py_nb_or, operator_or},
                                       {Py_nb_xor, operator_xor},
                                       {Py_nb_lshift, operator_shl},
                                       {Py_nb_rshift, operator_shr},
                                       {Py_tp_richcompare, compare},
                                       {0, NULL}};

/* The functions. */

static PyObject *call_operation(int number, PyObject *args) {
    const operation *op = &operations[number];
    PyObject *operands[3];
    Py_ssize_t n = PyTuple_Size(args);
    if (n != op->arity)
        return PyErr_Format(PyExc_TypeError, "%s() takes %d arguments, not %zd", op->name,
                            op->arity, n);
    for (Py_ssize_t i = 0; i < n; ++i)
        operands[i] = PyTuple_GetItem(args, i);
    return operate(op, operands);
}

#define OPERATION(name, function, arity, masked, text, doc)                                        \
    static PyObject *call_##name(PyObject *module, PyObject *args) {                               \
        (void) module;                                                                             \
        return call_operation(OP_##name, args);                                                    \
    }
#include "operations.def"
#include "own_operations.def"
#undef OPERATION

PyMethodDef bridge_operations[] = {
#define OPERATION(name, function, arity, masked, text, doc) {text, call_##name, METH_VARARGS, doc},
#include "operations.def"
#include "own_operations.def"
#undef OPERATION
    {NULL, NULL, 0, NULL}};
