//! The limits of one connection, so that no peer can hold up another. The memory of a connection is counted in bytes
//! by its account (`api::memory`). This module says how much things count for, and limits the rest.

use std::time::Duration;

/// Bytes of a frame, in both directions: what Service Bus itself agrees to.
pub(super) const FRAME_BYTES_MAX: u32 = 65_536;

/// The least that the standard lets a peer agree to.
pub(super) const FRAME_BYTES_MIN: u32 = 512;

/// Sessions of a connection: JavaScript's client opens one for each link.
pub(super) const SESSIONS_MAX: u16 = 16_384;

/// Links of a connection, over all sessions: 5,000 senders and receivers, as Service Bus has it, with the two links each
/// that clients have for their management, as far as there is memory for them.
pub(super) const LINKS_MAX: usize = 16_384;

/// The highest handle of a link in its session.
pub(super) const HANDLE_MAX: u32 = LINKS_MAX as u32 - 1;

/// Frames of a session that a peer may send before it hears that there is room for more.
pub(super) const INCOMING_WINDOW: u32 = 4_096;

/// Messages that a peer may send over a link before the first of them is committed.
pub(super) const INCOMING_CREDIT: u32 = 1_000;

/// Bytes that a connection counts for, beside its stream and what it is asked to keep: its future, its state, its channels and
/// what it reads into. 27 KiB were seen for one with an open and a session, of which 16 KiB were room for TLS, for HTTP and for
/// what its tasks may say; that is made when it is needed.
pub(super) const CONNECTION_BYTES: usize = 9 * 1_024;

/// Bytes that a session counts for.
pub(super) const SESSION_BYTES: usize = 1_024;

/// Bytes that a link counts for, beside its name and addresses: its state.
pub(super) const LINK_BYTES: usize = 3 * 1_024;

/// Bytes that the task of a link counts for until it has ended, beside what it is named: with its channels, 5 KiB were seen
/// for one that hands out messages, and 3 KiB for others.
pub(super) const LINK_TASK_BYTES: usize = 5 * 1_024;

/// Bytes that any other task counts for.
pub(super) const TASK_BYTES: usize = 1_024;

/// Tasks that still run whose links have ended. Past it nothing more is read, so that a peer that attaches and detaches
/// goes no faster than the store. Enough for the store never to wait for them, and for a client that ends all its links.
pub(super) const ENDING_TASKS_MAX: usize = 256;

/// Bytes that a link counts for which is rejected, until the peer has detached it.
pub(super) const REJECTED_LINK_BYTES: usize = 512;

/// Bytes that a message which is not committed yet counts for, beside its payload: what was read of it.
pub(super) const MESSAGE_BYTES: usize = 512;

/// Bytes that a request counts for besides until it was answered: its place in the order of what the peer sends, and in the
/// queue of its link. Some 2 KiB were seen for one that waits there, with what it counts for as a message.
pub(super) const WAITING_REQUEST_BYTES: usize = 1_024;

/// Bytes that a request counts for besides while it is answered: what was read of it, the futures that answer it, and the
/// change that waits for the writer. 10 to 18 KiB were seen for locks that are renewed.
pub(super) const ANSWERING_BYTES: usize = 16 * 1_024;

/// Requests of a connection that are answered at once, over all links; the others wait in their links. A link has one of them,
/// and clients have a link for each entity.
pub(super) const REQUESTS_AT_ONCE_MAX: usize = 64;

/// Bytes that a message counts for while it is stored, besides twice its own: the event that is made of it, and the change that
/// waits for the writer. Small messages were seen to take 5 to 9 KiB. The others of a batch share the change.
pub(super) const STORING_BYTES: usize = 8 * 1_024;

/// Bytes that a message counts for which was handed out and is not settled.
pub(super) const DELIVERY_BYTES: usize = 256;

/// Bytes that a message counts for which waits for the peer's window, beside those that are left of it.
pub(super) const SENDING_BYTES: usize = 128;

/// Bytes that an open transaction counts for, beside its messages: its state, and the task that ends it.
pub(super) const TRANSACTION_BYTES: usize = 512 + TASK_BYTES;

/// Bytes that are read at once at first, and where little comes.
pub(super) const READ_BYTES_MIN: usize = 1_024;

/// Bytes that are read at once where much comes.
pub(super) const READ_BYTES_MAX: usize = 32 * 1_024;

/// Bytes that the peer has not taken yet. Past it nothing more is read or handed out.
pub(super) const OUTPUT_BYTES_MAX: usize = 1_024 * 1_024;

/// Bytes that a peer has not taken yet which has shown no key.
pub(super) const STRANGER_OUTPUT_BYTES_MAX: usize = 8 * 1_024;

/// Messages that a link has handed out and heard nothing of.
pub(super) const UNSETTLED_MAX: usize = 5_000;

/// How many of the locks that a connection has settled last are remembered.
pub(super) const SETTLED_LOCKS_MAX: usize = 1_000;

/// Messages that a link asks for at once, so that links of a connection get their turns.
pub(super) const TAKE_MAX: usize = 256;

/// Bytes of messages that are read and begun to be stored before others have their turn on the thread: about half a
/// millisecond's worth.
pub(super) const READ_IN_A_ROW_MAX: usize = 64 * 1_024;

/// Links of a connection that may have taken messages which do not stand in its output yet.
pub(super) const TAKES_MAX: usize = 4;

/// Bytes of a request: a batch of messages to schedule is the largest.
pub(super) const REQUEST_BYTES_MAX: u64 = 1_024 * 1_024;

/// Bytes of a token with its request.
pub(super) const TOKEN_BYTES_MAX: u64 = 64 * 1_024;

/// Links over which a peer shows tokens, and as many for the answers. Until it has shown one, it has one of each.
pub(super) const TOKEN_LINKS_MAX: usize = 8;

/// The memory that the parts of a request take beside its bytes, as a multiple of these bytes: lists of lock tokens and
/// their results.
pub(super) const REQUEST_PARTS_FACTOR: usize = 8;

/// Deliveries that a frame stands for, however short it is and whatever it is about.
pub(super) const FRAME_STEPS: usize = 10;

/// How often claims that have expired are looked for, since that is about all links. Operations look for themselves.
pub(super) const EXPIRY_LOOK: Duration = Duration::from_secs(1);

/// Deliveries that the frames of a peer may be about before others have their turn.
pub(super) const FRAME_STEPS_MAX: usize = 20_000;

/// Deliveries that a link stands for which is attached or detached: its task begins, or ends.
pub(super) const LINK_STEPS: usize = 100;

/// Tokens that a connection has shown: one for each entity that it uses, and its management.
pub(super) const CLAIMS_MAX: usize = 2_048;

/// How long a peer may take from its first byte to its open.
pub(super) const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(20);

/// How long a peer may take to show a valid token: Service Bus' own limit.
pub(super) const TOKEN_DEADLINE: Duration = Duration::from_secs(20);

/// How long a frame may take from its first byte to its last, and a message from its first frame to its last.
pub(super) const UNFINISHED_DEADLINE: Duration = Duration::from_secs(30);

/// The silence that a peer is told to avoid. Twice as much ends the connection.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The shortest silence that a peer may forbid us.
pub(super) const IDLE_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// A peer that has taken no byte for so long is cut off without being told that others need its memory.
pub(super) const TOLD_WITHIN: Duration = Duration::from_millis(100);

/// How long a peer may take no byte of what is sent to it.
pub(super) const WRITE_DEADLINE: Duration = Duration::from_secs(60);

/// How long a peer may take to answer a close, and as long again to let its stream be closed. Clients that are not in use at
/// the moment do not answer, and the database can be closed only when their connections have ended.
pub const CLOSE_DEADLINE: Duration = Duration::from_secs(2);

/// How long that may take where others need what the connection keeps: they wait for it.
pub(super) const HURRIED_CLOSE_DEADLINE: Duration = Duration::from_millis(200);

/// Transactions of a connection that were not discharged. Clients have one after the other on each coordinator link.
pub(super) const TRANSACTIONS_MAX: usize = 64;

/// Messages that a transaction sends and settles: Service Bus' own limit.
pub(super) const TRANSACTION_MESSAGES_MAX: usize = 100;

/// How long a transaction may take from its declaration to its discharge: Service Bus' own limit.
pub(super) const TRANSACTION_DEADLINE: Duration = Duration::from_secs(120);

/// Bytes of what the coordinator is asked.
pub(super) const COORDINATOR_BYTES_MAX: u64 = 1_024;
