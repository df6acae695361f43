//! Errors of the database, by what can be done about them.

use std::fmt::Display;
use std::path::Path;

use rusqlite::ErrorCode;

/// SQLite's extended code for a shared-memory file that cannot grow, which means that the disk is full.
const IOERR_SHMSIZE: i32 = 10 | (19 << 8);

/// After these the file can no longer be written or trusted.
const FATAL: [ErrorCode; 3] = [
    ErrorCode::SystemIoFailure,
    ErrorCode::NotADatabase,
    ErrorCode::FileLockingProtocolFailed,
];

/// Why the store failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full. Nothing of the change was stored; try again when there is room.
    #[error("the disk is full")]
    Full,
    /// Another program holds the lock on the file. Nothing of the change was stored; try again when it is gone.
    #[error("another program, such as sqlite3 or a backup tool, holds a lock on everpost.db")]
    Locked,
    /// The store is closing, or has failed. A change under way may or may not have been stored.
    #[error("the store is closed")]
    Closed,
    /// The read took longer than a read may.
    #[error("the read took too long and was stopped")]
    TooSlow,
    /// A change that shared the commit failed. Nothing of either was stored; try again.
    #[error("a change of the same commit failed: {0}")]
    Undone(String),
    /// A page is damaged. What is on others can still be read; a change that meets it ends the process.
    #[error("the database is damaged ({0}); `everpost salvage` copies what can be read")]
    Damaged(String),
    /// The file cannot be written or trusted any more. The process must end and start again.
    #[error("the database has failed: {0}")]
    Failed(String),
    /// The provisioning directory alone changes it. Nothing was stored.
    #[error("{target} is provisioned from {file}; change it there")]
    Provisioned { target: String, file: String },
    /// A master key is missing or wrong. The database stays closed.
    #[error("{0}")]
    MasterKey(String),
    /// A stored value cannot be read: somebody else wrote to the file, or the disk is damaged.
    #[error("{0}")]
    Unreadable(String),
    /// Anything else: a bug.
    #[error("{0}")]
    Other(String),
}

impl StoreError {
    /// Reports whether the store cannot be used any more.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Closed | Self::Failed(_))
    }

    /// Reports whether the process must end because of this error.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Reports whether the requested rows exist but cannot be read.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::Damaged(_))
    }

    /// Returns this error as that of a change. A change that has met damage has failed for good, since nothing more may
    /// be written after it.
    pub(super) fn of_change(self) -> Self {
        if matches!(self, Self::Damaged(_)) {
            Self::Failed(self.to_string())
        } else {
            self
        }
    }
}

/// The reason that there is no backup, or that nothing was restored: a clause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BackupError(pub(super) String);

impl BackupError {
    pub fn new(reason: impl Display) -> Self {
        Self(reason.to_string())
    }

    /// Makes an error from `cause` that names the file or directory at `path`.
    pub(super) fn at(path: &Path, cause: impl Display) -> Self {
        Self(format!("{}: {cause}", path.display()))
    }
}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

impl From<rusqlite::Error> for BackupError {
    fn from(error: rusqlite::Error) -> Self {
        StoreError::from(error).into()
    }
}

/// The error type of a change: an error of the store, or one of the domain.
pub(super) trait ChangeError: From<StoreError> + Send + 'static {
    /// The error of the store, if it is one.
    fn store_error(&self) -> Option<&StoreError>;
}

impl ChangeError for StoreError {
    fn store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        // A column has a value of another type, or text that is not UTF-8.
        if matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::Utf8Error(..)
        ) {
            return Self::Unreadable(error.to_string());
        }
        let rusqlite::Error::SqliteFailure(failure, _) = &error else {
            return Self::Other(error.to_string());
        };
        let code = failure.code;
        if code == ErrorCode::DiskFull || failure.extended_code == IOERR_SHMSIZE {
            return Self::Full;
        }
        if code == ErrorCode::DatabaseBusy {
            return Self::Locked;
        }
        if code == ErrorCode::OperationInterrupted {
            return Self::TooSlow;
        }
        if code == ErrorCode::DatabaseCorrupt {
            return Self::Damaged(error.to_string());
        }
        if FATAL.contains(&code) {
            Self::Failed(error.to_string())
        } else {
            Self::Other(error.to_string())
        }
    }
}
