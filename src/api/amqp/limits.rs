//! What one connection may take, so that no peer can hold up another.

use std::time::Duration;

/// Bytes of a frame, in both directions: what Service Bus itself agrees to.
pub(super) const FRAME_BYTES_MAX: u32 = 65_536;

/// The least that the standard lets a peer agree to.
pub(super) const FRAME_BYTES_MIN: u32 = 512;

/// Sessions of a connection: JavaScript's client opens one for each link.
pub(super) const SESSIONS_MAX: u16 = 1_024;

/// Links of a connection, over all sessions.
pub(super) const LINKS_MAX: usize = 1_024;

/// Frames of a session that a peer may send before it hears that there is room for more.
pub(super) const INCOMING_WINDOW: u32 = 4_096;

/// Messages that a peer may send over a link before the first of them is committed.
pub(super) const INCOMING_CREDIT: u32 = 1_000;

/// Bytes of messages that came and are not committed yet. Past it nothing more is read from the connection.
pub(super) const PENDING_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// Bytes of messages whose last frame has not come yet, over all links: four of the largest ones.
pub(super) const PARTIAL_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Bytes that the peer has not taken yet. Past it nothing more is read or handed out.
pub(super) const OUTPUT_BYTES_MAX: usize = 1_024 * 1_024;

/// Messages that a link has handed out and heard nothing of.
pub(super) const UNSETTLED_MAX: usize = 5_000;

/// Messages that a link asks for at once, so that links of a connection get their turns.
pub(super) const TAKE_MAX: usize = 256;

/// Links of a connection that may have taken messages which do not stand in its output yet.
pub(super) const TAKES_MAX: usize = 4;

/// Bytes of replies that wait for a link's credit.
pub(super) const REPLIES_WAITING_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Bytes of a request: a batch of messages to schedule is the largest.
pub(super) const REQUEST_BYTES_MAX: u64 = 1_024 * 1_024;

/// Bytes of a token with its request.
pub(super) const TOKEN_BYTES_MAX: u64 = 64 * 1_024;

/// Links over which a peer shows tokens. Anybody can attach them, so they are few.
pub(super) const TOKEN_LINKS_MAX: usize = 8;

/// Tokens that a connection has shown: one for each entity that it uses, and its management.
pub(super) const CLAIMS_MAX: usize = 2_048;

/// How long a peer may take from its first byte to its open.
pub(super) const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(20);

/// How long a peer may take to show a valid token: Service Bus' own limit.
pub(super) const TOKEN_DEADLINE: Duration = Duration::from_secs(20);

/// The silence that a peer is told to avoid. Twice as much ends the connection.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The shortest silence that a peer may forbid us.
pub(super) const IDLE_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// How long a peer may take no byte of what is sent to it.
pub(super) const WRITE_DEADLINE: Duration = Duration::from_secs(60);

/// How long a peer may take to answer a close.
pub(super) const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// Transactions of a connection that were not discharged. Clients have one after the other on each coordinator link.
pub(super) const TRANSACTIONS_MAX: usize = 64;

/// Messages that a transaction sends and settles: Service Bus' own limit.
pub(super) const TRANSACTION_MESSAGES_MAX: usize = 100;

/// Bytes of messages that the transactions of all connections keep until their discharge. A connection may keep more
/// only while it keeps less than is left, so that none takes everything.
pub(super) const TRANSACTION_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// How long a transaction may take from its declaration to its discharge: Service Bus' own limit.
pub(super) const TRANSACTION_DEADLINE: Duration = Duration::from_secs(120);

/// Bytes of what the coordinator is asked.
pub(super) const COORDINATOR_BYTES_MAX: u64 = 1_024;
