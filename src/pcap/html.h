/* SPDX-License-Identifier: BSD-2-Clause */
/* The diagnosis as one page that needs nothing else: text, tables, and plots as SVG. */
#ifndef UROCE_PCAP_HTML_H
#define UROCE_PCAP_HTML_H

#include <stdio.h>

#include "pcap/selection.h"
#include "pcap/tracker.h"

/* name: of the capture. After tracker_finish. */
void html_print(const struct tracker *t, const struct selection *s, const char *name, FILE *out);

#endif
