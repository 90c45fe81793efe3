/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The grammar of fault rules: any text is a plan or is refused by one line.
 * What is a plan is one again when its rules are read from it one by one.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "link/fault_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_error(const char *error)
{
    assert(error[0] != '\0');
    for (; *error != '\0'; error++)
        assert((unsigned char)*error >= ' ' || *error == '\t');
}

static void check_plan(const struct fault_plan *plan)
{
    assert(plan->rule_count > 0);
    assert(plan->rule_count <= FAULT_RULES_MAX);
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        const struct fault_rule *r = &plan->rule[i];

        assert(r->action < FAULT_ACTION_COUNT);
        assert(r->chance <= FAULT_CHANCE_ONE);
        assert(r->from_ns < r->to_ns);
        assert((size_t)r->text_at + r->text_len <= strlen(plan->text));
    }
}

/* A rule stands on its own. */
static void check_rule(const struct fault_plan *plan, uint32_t i)
{
    const struct fault_rule *r = &plan->rule[i];
    static struct fault_plan alone;
    char error[FAULT_ERROR_SIZE] = "";
    char text[FAULT_TEXT_SIZE] = "";

    memcpy(text, plan->text + r->text_at, r->text_len);
    assert(fault_plan_parse(text, &alone, error) == 0);
    assert(alone.rule_count == 1);
    assert(alone.rule[0].action == r->action);
    assert(alone.rule[0].chance == r->chance);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct fault_plan plan;
    char error[FAULT_ERROR_SIZE] = "";
    char *text = calloc(1, len + 1);

    assert(text != NULL);
    memcpy(text, bytes, len);
    if (fault_plan_parse(text, &plan, error) != 0) {
        check_error(error);
    } else {
        check_plan(&plan);
        for (uint32_t i = 0; i < plan.rule_count; i++)
            check_rule(&plan, i);
    }
    free(text);
    return 0;
}
