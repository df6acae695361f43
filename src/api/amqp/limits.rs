//! The limits of one connection, so that no peer can delay another. The memory of a connection is counted in bytes by
//! its account (`api::memory`). This module defines the memory that is counted for each object, and the other limits.

use std::time::Duration;

/// The largest frame in bytes, in both directions, as in Service Bus.
pub(super) const FRAME_BYTES_MAX: u32 = 65_536;

/// The smallest max-frame-size in bytes that AMQP 1.0 allows.
pub(super) const FRAME_BYTES_MIN: u32 = 512;

/// The most sessions of a connection. The JavaScript client opens one for each link.
pub(super) const SESSIONS_MAX: u16 = 16_384;

/// The most links of a connection, over all sessions. Allows 5,000 senders and receivers, as in Service Bus, each with
/// the two management links that clients open, as far as memory allows.
pub(super) const LINKS_MAX: usize = 16_384;

/// The highest handle of a link in its session.
pub(super) const HANDLE_MAX: u32 = LINKS_MAX as u32 - 1;

/// The incoming window of a session, in transfer frames.
pub(super) const INCOMING_WINDOW: u32 = 4_096;

/// The most uncommitted messages that a peer may send over a link.
pub(super) const INCOMING_CREDIT: u32 = 1_000;

/// Bytes counted for a connection, besides its stream and the objects it keeps for the peer: its future, state,
/// channels and read buffer. A connection with an open and a session was measured at 27 KiB, of which 16 KiB were
/// buffers for TLS, HTTP and task output that are allocated on demand.
pub(super) const CONNECTION_BYTES: usize = 9 * 1_024;

/// Bytes counted for a session.
pub(super) const SESSION_BYTES: usize = 1_024;

/// Bytes counted for the state of a link, besides its name and addresses.
pub(super) const LINK_BYTES: usize = 3 * 1_024;

/// Bytes counted for the task of a link until the task ends, besides its names. Measured with its channels: 5 KiB for a
/// task that hands out messages, 3 KiB for others.
pub(super) const LINK_TASK_BYTES: usize = 5 * 1_024;

/// Bytes counted for any other task.
pub(super) const TASK_BYTES: usize = 1_024;

/// The most running tasks of ended links before reading stops, so that a peer that attaches and detaches goes no faster
/// than the store. High enough that the store never has to wait for such tasks, and that a client can end all its
/// links.
pub(super) const ENDING_TASKS_MAX: usize = 256;

/// Bytes counted for a rejected link until the peer has detached it.
pub(super) const REJECTED_LINK_BYTES: usize = 512;

/// Bytes counted for the decoded parts of an uncommitted message, besides its payload.
pub(super) const MESSAGE_BYTES: usize = 512;

/// Additional bytes counted for a request until it is answered: its place in the order of the peer's operations and in
/// the queue of its link. A waiting request was measured at some 2 KiB, including the bytes counted for its message.
pub(super) const WAITING_REQUEST_BYTES: usize = 1_024;

/// Additional bytes counted for a request while it is being answered: its decoded parts, the futures that answer it,
/// and the change that waits for the writer. Lock renewals were measured at 10 to 18 KiB.
pub(super) const ANSWERING_BYTES: usize = 16 * 1_024;

/// The most requests of a connection that are answered concurrently, over all links. Further requests wait in their
/// links. Each link has at most one request in progress, and clients have a link for each entity.
pub(super) const REQUESTS_AT_ONCE_MAX: usize = 64;

/// Bytes counted for a message while it is stored, besides twice its size: the event made of it, and the change that
/// waits for the writer. Small messages were measured at 5 to 9 KiB. The messages of a batch share one change.
pub(super) const STORING_BYTES: usize = 8 * 1_024;

/// Bytes counted for an unsettled message that was handed out.
pub(super) const DELIVERY_BYTES: usize = 256;

/// Bytes counted for a message that waits for the peer's session window, besides its unsent bytes.
pub(super) const SENDING_BYTES: usize = 128;

/// Bytes counted for an open transaction, besides its messages: its state, and the task that ends it.
pub(super) const TRANSACTION_BYTES: usize = 512 + TASK_BYTES;

/// The smallest and first size of the read buffer in bytes.
pub(super) const READ_BYTES_MIN: usize = 1_024;

/// The largest size of the read buffer in bytes.
pub(super) const READ_BYTES_MAX: usize = 32 * 1_024;

/// The most bytes of unsent output. Above it, nothing is read or handed out.
pub(super) const OUTPUT_BYTES_MAX: usize = 1_024 * 1_024;

/// The most bytes of unsent output for an unauthenticated peer.
pub(super) const STRANGER_OUTPUT_BYTES_MAX: usize = 8 * 1_024;

/// The most unsettled messages of a link.
pub(super) const UNSETTLED_MAX: usize = 5_000;

/// The number of most recently settled locks that a connection remembers.
pub(super) const SETTLED_LOCKS_MAX: usize = 1_000;

/// The most messages that a link takes at once, so that all links of a connection make progress.
pub(super) const TAKE_MAX: usize = 256;

/// The most bytes of messages that are decoded and begun to be stored before the task yields: about half a millisecond
/// of work.
pub(super) const READ_IN_A_ROW_MAX: usize = 64 * 1_024;

/// The most links of a connection that hold taken messages which are not in the output yet.
pub(super) const TAKES_MAX: usize = 4;

/// The largest request in bytes. Batches of messages to schedule are the largest requests.
pub(super) const REQUEST_BYTES_MAX: u64 = 1_024 * 1_024;

/// The largest put-token request in bytes.
pub(super) const TOKEN_BYTES_MAX: u64 = 64 * 1_024;

/// The most links to `$cbs`, and separately from `$cbs`. A peer without a valid token has one of each.
pub(super) const TOKEN_LINKS_MAX: usize = 8;

/// The memory of the decoded parts of a request, as a multiple of the size of the request: lists of lock tokens and
/// their results.
pub(super) const REQUEST_PARTS_FACTOR: usize = 8;

/// The processing cost of any frame, in deliveries.
pub(super) const FRAME_STEPS: usize = 10;

/// The shortest interval between checks for expired claims, since each check visits all links. Operations check for
/// themselves.
pub(super) const EXPIRY_LOOK: Duration = Duration::from_secs(1);

/// The processing cost of frames, in deliveries, after which the task yields.
pub(super) const FRAME_STEPS_MAX: usize = 20_000;

/// The processing cost of an attach or detach, in deliveries, as it starts or ends a task.
pub(super) const LINK_STEPS: usize = 100;

/// The most claims of a connection: one for each entity that it uses, and one for its management.
pub(super) const CLAIMS_MAX: usize = 2_048;

/// The time limit from the acceptance of a connection to the peer's open.
pub(super) const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(20);

/// The time limit for the first valid token, as in Service Bus.
pub(super) const TOKEN_DEADLINE: Duration = Duration::from_secs(20);

/// The time limit for a frame from its first byte to its last, and for a message from its first frame to its last.
pub(super) const UNFINISHED_DEADLINE: Duration = Duration::from_secs(30);

/// The idle timeout announced to the peer. A silence of twice this time ends the connection.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The shortest idle timeout of a peer that the server observes.
pub(super) const IDLE_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// The time without a successful write after which a connection that is ended to free memory is cut off without a close
/// frame.
pub(super) const TOLD_WITHIN: Duration = Duration::from_millis(100);

/// The time limit for the peer to accept any byte of the output.
pub(super) const WRITE_DEADLINE: Duration = Duration::from_secs(60);

/// The time limit for the peer to answer a close. The shutdown of the stream has the same limit again. Idle clients do
/// not answer, and the database can be closed only when their connections have ended.
pub const CLOSE_DEADLINE: Duration = Duration::from_secs(2);

/// The time limit that replaces [`CLOSE_DEADLINE`] when other connections wait for the memory of this one.
pub(super) const HURRIED_CLOSE_DEADLINE: Duration = Duration::from_millis(200);

/// The most open transactions of a connection. Clients run them one after the other on each coordinator link.
pub(super) const TRANSACTIONS_MAX: usize = 64;

/// The most messages that a transaction sends and settles, as in Service Bus.
pub(super) const TRANSACTION_MESSAGES_MAX: usize = 100;

/// The time limit for a transaction from its declaration to its discharge, as in Service Bus.
pub(super) const TRANSACTION_DEADLINE: Duration = Duration::from_secs(120);

/// The largest request to the transaction coordinator in bytes.
pub(super) const COORDINATOR_BYTES_MAX: u64 = 1_024;
