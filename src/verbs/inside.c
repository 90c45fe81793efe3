/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/inside.h"

#include "verbs/export.h"

EXPORT const struct inside *uroce_inside_4(void)
{
    static const struct inside inside = {
#define INSIDE_VALUE(name) .name = (name),
        INSIDE_CALLS(INSIDE_VALUE)
#undef INSIDE_VALUE
    };

    return &inside;
}
