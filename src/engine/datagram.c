/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive side of UD (IBA 9.8.3): each packet is a message. What does not
 * fit is dropped and counted; the queue pair stays as it is.
 */
#include "engine/engine_private.h"
#include "engine/responder_private.h"
#include "wire/ip.h"

/* GRH area and payload; the area holds the IP header as the RoCEv2 annex (A17.4.5.1) puts it. */
static enum completion_status place(struct qp *qp, const struct recv_wqe *wqe,
                                    const struct packet *p, const struct datagram *d)
{
    struct sge_list sges = receive_sges(qp, wqe);
    enum completion_status status;
    uint8_t grh[GRH_LEN];

    grh_write(d, grh);
    status = sge_write(qp->engine, &sges, 0, grh, sizeof(grh));
    if (status == STATUS_SUCCESS)
        status = sge_write(qp->engine, &sges, sizeof(grh), p->payload, p->payload_len);
    return status;
}

void datagram_receive(struct qp *qp, const struct packet *p, const struct datagram *d)
{
    struct receive_end end = {
        .byte_len = GRH_LEN + p->payload_len,
        .flags = COMPLETION_GRH,
        .src_qpn = p->h.deth.src_qpn,
        .service_level = grh_is_ipv4(d) ? HEADER_FORM_UDP_IPV4 : HEADER_FORM_UDP_IPV6,
    };
    struct recv_wqe *wqe;

    if (p->h.deth.qkey != qp->attr.qkey) {
        qp_count(qp, wrong_qkey, 1);
        return;
    }
    if (p->payload_len > qp->attr.pmtu) {
        qp_count(qp, bad_length, 1);
        return;
    }
    wqe = qp_take_receive(qp);
    if (wqe == NULL) {
        qp_count(qp, no_receive, 1);
        return;
    }
    if (wqe->length < end.byte_len) {
        qp_count(qp, receive_too_small, 1);
        qp_untake_receive(qp, wqe);
        return;
    }
    end.status = place(qp, wqe, p, d);
    receive_complete(qp, wqe, p, &end);
    if (end.status != STATUS_SUCCESS) {
        qp_count(qp, responder_memory_fault, 1);
        qp_enter_error(qp);
        return;
    }
    qp_count(qp, requests, 1);
    qp_count(qp, rx_send_requests, 1);
    qp_count(qp, rcv_payload_bytes, p->payload_len);
}
