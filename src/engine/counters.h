/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is counted: for each queue pair, and for the engine. Names are those of adapters' and rxe's
 * counters where they have one.
 */
#ifndef UROCE_ENGINE_COUNTERS_H
#define UROCE_ENGINE_COUNTERS_H

#include <stdint.h>

/* Of a queue pair, and of all of them since the engine began. name, sentence */
#define QP_COUNTERS(C)                                                                             \
    C(rcv_packets, "datagrams handed in")                                                          \
    C(rcv_bytes, "their bytes, from the BTH to the ICRC")                                          \
    C(sent_packets, "datagrams handed out")                                                        \
    C(sent_bytes, "their bytes, from the BTH to the ICRC")                                         \
    C(mcast_rcv_packets, "datagrams that came for a multicast group")                              \
    C(mcast_sent_packets, "datagrams handed out for a multicast group")                            \
    C(rcv_payload_bytes, "payload bytes accepted")                                                 \
    C(sent_payload_bytes, "payload bytes handed out, repeats included")                            \
    C(requests, "requests carried out as responder")                                               \
    C(responses, "responses that acknowledged or brought what was asked for")                      \
    C(rx_send_requests, "SEND messages that were taken")                                           \
    C(rx_write_requests, "WRITE messages that were taken")                                         \
    C(rx_read_requests, "READs that were taken")                                                   \
    C(rx_atomic_requests, "atomics that were taken")                                               \
    C(wrong_service, "datagrams whose opcode is not one for the QP's service and side")            \
    C(wrong_state, "datagrams for a QP in a state that does not take them")                        \
    C(wrong_pkey, "datagrams with a wrong P_Key")                                                  \
    C(wrong_qkey, "datagrams with a wrong Q_Key")                                                  \
    C(wrong_source, "datagrams for a connected QP from another address than its peer's")           \
    C(out_of_sequence, "requests past the expected PSN")                                           \
    C(duplicate_request, "requests before the expected PSN")                                       \
    C(bad_sequence_opcode, "requests whose opcode does not continue or begin a message")           \
    C(bad_length, "requests whose length does not fit opcode, PMTU or message")                    \
    C(remote_access_refused, "requests with a key, right or range that is not good")               \
    C(no_receive, "requests that found no receive request (RNR on RC, dropped on UC and UD)")      \
    C(receive_too_small, "messages longer than their receive request")                             \
    C(responder_memory_fault, "requests that met memory that is gone")                             \
    C(wrong_xrc_srq, "XRC requests whose SRQ does not exist or is of another domain")              \
    C(read_broken, "READs whose key or memory went away before all was answered")                  \
    C(too_many_reads, "READs and atomics beyond the responder's resources")                        \
    C(message_broken, "UC messages dropped because a packet was missing")                          \
    C(stale_response, "responses that acknowledge nothing outstanding")                            \
    C(bad_response, "responses that contradict the request")                                       \
    C(packet_seq_err, "NAKs for PSN sequence that came in")                                        \
    C(implied_nak_seq_err, "READ or atomic responses found missing by a later response")           \
    C(rnr_nak_rcv, "RNR NAKs that came in")                                                        \
    C(remote_err_nak_rcv, "NAKs other than PSN sequence that came in")                             \
    C(local_ack_timeout_err, "retransmission time-outs")                                           \
    C(retry_exceeded, "requests that ended because retries were used up")                          \
    C(rnr_retry_exceeded, "requests that ended because RNR retries were used up")                  \
    C(retransmitted_packets, "request packets sent again")                                         \
    C(window_blocked, "times that a QP waited for its destination's window")                       \
    C(req_cqe_error, "send requests that ended with an error")                                     \
    C(req_cqe_flush_error, "of them, those that were flushed")                                     \
    C(req_remote_access_errors, "of them, those that the peer refused for key, right or range")    \
    C(req_remote_invalid_request, "of them, those that the peer refused as invalid")               \
    C(resp_cqe_error, "receive requests that ended with an error")                                 \
    C(resp_cqe_flush_error, "of them, those that were flushed")                                    \
    C(resp_local_length_error, "of them, those that were too small for their message")

/* Of the engine: those, and what belongs to no queue pair. */
#define ENGINE_COUNTERS(C)                                                                         \
    QP_COUNTERS(C)                                                                                 \
    C(malformed, "datagrams that the packet parser refused")                                       \
    C(no_qp, "datagrams for a QPN that does not exist")                                            \
    C(mcast_no_member, "multicast datagrams for a group that no QP is attached to")                \
    C(mcast_own, "multicast datagrams that came back to the QP that sent them")                    \
    C(mcast_bad_address, "datagrams with a multicast address and a QPN, or the other way round")   \
    C(farewells, "ACKs said again by queue pairs that were taken out of service")                  \
    C(farewells_lost, "those for which there was no room")                                         \
    C(cnp_rcv, "congestion notification packets that came in")                                     \
    C(cnp_handled, "of them, those that made a window smaller")                                    \
    C(cnp_sent, "congestion notification packets sent: packets came marked, or faster than read")  \
    C(ecn_marked, "datagrams that came in marked congestion experienced")

#define COUNTER_FIELD(name, text) uint64_t name;
struct qp_counters {
    QP_COUNTERS(COUNTER_FIELD)
};

/* Begins as struct qp_counters. */
struct engine_counters {
    ENGINE_COUNTERS(COUNTER_FIELD)
};
#undef COUNTER_FIELD

#endif
