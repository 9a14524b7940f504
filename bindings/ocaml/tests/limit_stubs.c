/* Limits of a process, for tests of what it does without memory. */
#include <caml/mlvalues.h>
#include <stdlib.h>
#include <sys/resource.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* what: 0 is the address space, 1 the stack. No limit for -1. Whether it was taken. */
value varvite_tests_limit(value what, value bytes) {
    struct rlimit limit;
    int which = Int_val(what) == 0 ? RLIMIT_AS : RLIMIT_STACK;
#ifdef __GLIBC__
    /* What is freed is the system's again, and what is much is asked of the system. */
    mallopt(M_MMAP_THRESHOLD, 1 << 17);
#endif
    if (getrlimit(which, &limit) != 0) return Val_false;
    limit.rlim_cur = bytes == Val_int(-1) ? limit.rlim_max : (rlim_t)Long_val(bytes);
    return Val_bool(setrlimit(which, &limit) == 0);
}
