//! Errors of the database, by what can be done about them.

use std::fmt::Display;
use std::path::Path;

use rusqlite::ErrorCode;

/// SQLite's extended code for a shared-memory file that cannot grow, which means that the disk is full.
const IOERR_SHMSIZE: i32 = 10 | (19 << 8);

/// SQLite errors after which the file can no longer be written or trusted.
const FATAL: [ErrorCode; 3] = [
    ErrorCode::SystemIoFailure,
    ErrorCode::NotADatabase,
    ErrorCode::FileLockingProtocolFailed,
];

/// An error of the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full. Nothing of the change was stored. The caller may try again when disk space is free.
    #[error("the disk is full")]
    Full,
    /// Another program holds the lock on the file. Nothing of the change was stored. The caller may try again when the
    /// lock is released.
    #[error("another program, such as sqlite3 or a backup tool, holds a lock on everpost.db")]
    Locked,
    /// The store is closing, or has failed. A change under way may or may not have been stored.
    #[error("the store is closed")]
    Closed,
    /// The read exceeded the time limit of reads.
    #[error("the read took too long and was stopped")]
    TooSlow,
    /// Another change in one commit with this one failed. Nothing of either change was stored. The caller may try
    /// again.
    #[error("a change of the same commit failed: {0}")]
    Undone(String),
    /// A page of the database is damaged. Other pages can still be read. A change that meets the damaged page ends the
    /// process.
    #[error("the database is damaged ({0}); `everpost salvage` copies what can be read")]
    Damaged(String),
    /// The file cannot be written or trusted any more. The process must end and start again.
    #[error("the database has failed: {0}")]
    Failed(String),
    /// The target can be changed only in the provisioning directory. Nothing was stored.
    #[error("{target} is provisioned from {file}; change it there")]
    Provisioned { target: String, file: String },
    /// A master key is missing or wrong. The database stays closed.
    #[error("{0}")]
    MasterKey(String),
    /// A stored value cannot be read, because another program wrote to the file or the disk is damaged.
    #[error("{0}")]
    Unreadable(String),
    /// Any other error, which indicates a bug.
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

    /// Converts the error of a change. Turns [`StoreError::Damaged`] into [`StoreError::Failed`], because nothing may
    /// be written after a change has met damage.
    pub(super) fn of_change(self) -> Self {
        if matches!(self, Self::Damaged(_)) {
            Self::Failed(self.to_string())
        } else {
            self
        }
    }
}

/// The reason that a backup or a restore failed, worded as a clause.
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
    /// Returns the error of the store, `None` for an error of the domain.
    fn store_error(&self) -> Option<&StoreError>;
}

impl ChangeError for StoreError {
    fn store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        // These errors mean that a column has a value of another type, or text that is not UTF-8.
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
