/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that loads the library by itself and lets it go again, as plugins are: the progress
 * thread runs in its code and must not lose it. Given the path of the library.
 */
#include "fixture.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *library;

struct calls {
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
};

static void find(void *handle, const char *name, void *call)
{
    void *symbol = dlsym(handle, name);

    assert_non_null(symbol);
    memcpy(call, &symbol, sizeof(symbol));
}

static void *load(struct calls *c)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    if (handle == NULL)
        fail_msg("%s", dlerror());
    find(handle, "ibv_get_device_list", &c->get_device_list);
    find(handle, "ibv_free_device_list", &c->free_device_list);
    find(handle, "ibv_open_device", &c->open_device);
    find(handle, "ibv_close_device", &c->close_device);
    find(handle, "ibv_query_device", &c->query_device);
    return handle;
}

static struct ibv_context *open_first(const struct calls *c)
{
    struct ibv_device_attr attr;
    struct ibv_context *context;
    struct ibv_device **list = c->get_device_list(NULL);

    assert_non_null(list);
    assert_non_null(list[0]);
    context = c->open_device(list[0]);
    c->free_device_list(list);
    assert_non_null(context);
    assert_int_equal(c->query_device(context, &attr), 0);
    return context;
}

static void a_library_that_is_let_go_while_its_thread_runs_harms_nobody(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct calls c;
        void *handle = load(&c);
        struct ibv_context *context = open_first(&c);

        if (i % 2 == 0) /* some forget it */
            assert_int_equal(c.close_device(context), 0);
        assert_int_equal(dlclose(handle), 0);
        /* The thread is told of that, and looks. */
        assert_int_equal(system("ip address add 10.9.0.1/32 dev lo"), 0);
        assert_int_equal(system("ip address del 10.9.0.1/32 dev lo"), 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_is_let_go_while_its_thread_runs_harms_nobody),
    };

    if (argc != 2)
        return 2;
    library = argv[1];
    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
