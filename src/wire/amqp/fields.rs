//! The fields of a composite type, read in their order.

use crate::wire::amqp::decode::DecodeError;
use crate::wire::amqp::value::{FromValue, Value};

/// Fields that were not read yet. Those that are not there are null.
pub(super) struct Fields {
    of: &'static str,
    values: std::vec::IntoIter<Value>,
}

impl Fields {
    /// The fields of `value`, a list.
    pub(super) fn of(of: &'static str, value: Value) -> Result<Self, DecodeError> {
        let Value::List(values) = value else {
            let (field, kind) = ("the content", "a list");
            return Err(DecodeError::WrongKind { of, field, kind });
        };
        Ok(Self {
            of,
            values: values.into_iter(),
        })
    }

    /// The next field, `None` for null.
    pub(super) fn optional<T: FromValue>(
        &mut self,
        field: &'static str,
    ) -> Result<Option<T>, DecodeError> {
        match self.values.next() {
            None | Some(Value::Null) => Ok(None),
            Some(value) => T::from_value(value)
                .map(Some)
                .ok_or(DecodeError::WrongKind {
                    of: self.of,
                    field,
                    kind: T::KIND,
                }),
        }
    }

    /// The next field, which has to be there.
    pub(super) fn required<T: FromValue>(&mut self, field: &'static str) -> Result<T, DecodeError> {
        let of = self.of;
        self.optional(field)?
            .ok_or(DecodeError::Missing { of, field })
    }

    /// The next field, or what stands for it.
    pub(super) fn or<T: FromValue>(
        &mut self,
        field: &'static str,
        default: T,
    ) -> Result<T, DecodeError> {
        Ok(self.optional(field)?.unwrap_or(default))
    }

    /// Leaves out a field that nothing here looks at.
    pub(super) fn skip(&mut self) {
        self.values.next();
    }
}
