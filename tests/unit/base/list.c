/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists: order, removal, and links that know whether they are queued. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/list.h"

struct member {
    int number;
    struct list link;
};

static int number_of(struct list *link)
{
    return LIST_ENTRY(link, struct member, link)->number;
}

static void members_come_off_in_the_order_they_were_put(void **state)
{
    struct list head;
    struct member m[3] = {{.number = 0}, {.number = 1}, {.number = 2}};

    (void)state;
    list_init(&head);
    list_push_tail(&head, &m[1].link);
    list_push_tail(&head, &m[2].link);
    list_push_head(&head, &m[0].link);
    for (int i = 0; i < 3; i++)
        assert_int_equal(number_of(list_pop_head(&head)), i);
    assert_null(list_pop_head(&head));
    assert_true(list_empty(&head));
}

static void a_link_that_was_removed_is_on_no_list(void **state)
{
    struct list head;
    struct member m[3];

    (void)state;
    list_init(&head);
    for (int i = 0; i < 3; i++) {
        m[i].number = i;
        list_push_tail(&head, &m[i].link);
    }
    assert_false(list_empty(&m[1].link));
    list_remove(&m[1].link);
    assert_true(list_empty(&m[1].link));
    list_remove(&m[1].link); /* once more does nothing */
    assert_int_equal(number_of(list_pop_head(&head)), 0);
    assert_int_equal(number_of(list_pop_head(&head)), 2);
    assert_true(list_empty(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_come_off_in_the_order_they_were_put),
        cmocka_unit_test(a_link_that_was_removed_is_on_no_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
