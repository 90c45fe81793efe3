/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Marks what the library gives to applications. Everything else is hidden; the
 * version of each name is in libibverbs.map.
 */
#ifndef UROCE_VERBS_EXPORT_H
#define UROCE_VERBS_EXPORT_H

#define EXPORT __attribute__((visibility("default")))

#endif
