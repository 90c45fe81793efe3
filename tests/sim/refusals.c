/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/app.h"

bool refusal_turn(struct endpoint *ep)
{
    (void)ep;
    return false;
}
