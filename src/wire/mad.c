/* SPDX-License-Identifier: BSD-2-Clause */
/* The MAD header between bytes and struct, at the offsets of IBA 13.4.2. */
#include "wire/mad.h"

#include "base/bytes.h"

bool mad_read(const uint8_t *bytes, size_t len, struct mad_header *out)
{
    if (len != MAD_LEN)
        return false;
    *out = (struct mad_header){
        .base_version = bytes[0],
        .mgmt_class = bytes[1],
        .class_version = bytes[2],
        .method = bytes[3],
        .status = load_be16(bytes + 4),
        .class_specific = load_be16(bytes + 6),
        .transaction_id = load_be64(bytes + 8),
        .attribute_id = load_be16(bytes + 16),
        .attribute_modifier = load_be32(bytes + 20),
    };
    return true;
}

void mad_write(const struct mad_header *header, uint8_t *out)
{
    out[0] = header->base_version;
    out[1] = header->mgmt_class;
    out[2] = header->class_version;
    out[3] = header->method;
    store_be16(out + 4, header->status);
    store_be16(out + 6, header->class_specific);
    store_be64(out + 8, header->transaction_id);
    store_be16(out + 16, header->attribute_id);
    store_be16(out + 18, 0);
    store_be32(out + 20, header->attribute_modifier);
}
