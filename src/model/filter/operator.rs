//! The operators of advanced filters (rule 4.2).
//!
//! To add an operator, add a variant, its row in [`Operator::ALL`], an arm in `Clause::hits`, and lines in the `check`
//! of `tests.rs`. Parser, forms and documentation read the rows.

/// How a value of an event is compared with the values of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    NumberIn,
    NumberNotIn,
    NumberLessThan,
    NumberGreaterThan,
    NumberLessThanOrEquals,
    NumberGreaterThanOrEquals,
    NumberInRange,
    NumberNotInRange,
    BoolEquals,
    StringContains,
    StringBeginsWith,
    StringEndsWith,
    StringIn,
    StringNotContains,
    StringNotBeginsWith,
    StringNotEndsWith,
    StringNotIn,
    IsNullOrUndefined,
    IsNotNull,
}

/// The kind of values that an operator compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    Number,
    /// Any of them.
    Numbers,
    /// Ranges, of which one must match; both ends are included.
    Ranges,
    Bool,
    /// Texts, of which one must match in any letter case.
    Texts,
}

/// The properties of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorRow {
    pub operator: Operator,
    /// Azure's name.
    pub name: &'static str,
    pub takes: Takes,
    /// Is true if the operator passes where its form without `Not` would not. No element of an array may match then.
    pub negated: bool,
    /// Is true if an event passes whose value at the key is missing, `null` or of another type.
    pub passes_without_key: bool,
    /// The words between the key and the values in the text of a filter: `data.total` … `100`.
    pub meaning: &'static str,
}

impl Operator {
    /// All operators, in the order of the variants.
    #[rustfmt::skip] // one row, one line
    pub const ALL: &'static [OperatorRow; 19] = &[
        row(Self::NumberIn, "NumberIn", Takes::Numbers, "is one of"),
        row(Self::NumberNotIn, "NumberNotIn", Takes::Numbers, "is none of").negated().passes_without_key(),
        row(Self::NumberLessThan, "NumberLessThan", Takes::Number, "is less than"),
        row(Self::NumberGreaterThan, "NumberGreaterThan", Takes::Number, "is greater than"),
        row(Self::NumberLessThanOrEquals, "NumberLessThanOrEquals", Takes::Number, "is at most"),
        row(Self::NumberGreaterThanOrEquals, "NumberGreaterThanOrEquals", Takes::Number, "is at least"),
        row(Self::NumberInRange, "NumberInRange", Takes::Ranges, "is in one of"),
        row(Self::NumberNotInRange, "NumberNotInRange", Takes::Ranges, "is in none of").negated().passes_without_key(),
        row(Self::BoolEquals, "BoolEquals", Takes::Bool, "is"),
        row(Self::StringContains, "StringContains", Takes::Texts, "contains one of"),
        row(Self::StringBeginsWith, "StringBeginsWith", Takes::Texts, "begins with one of"),
        row(Self::StringEndsWith, "StringEndsWith", Takes::Texts, "ends with one of"),
        row(Self::StringIn, "StringIn", Takes::Texts, "is one of"),
        row(Self::StringNotContains, "StringNotContains", Takes::Texts, "contains none of").negated(),
        row(Self::StringNotBeginsWith, "StringNotBeginsWith", Takes::Texts, "begins with none of").negated(),
        row(Self::StringNotEndsWith, "StringNotEndsWith", Takes::Texts, "ends with none of").negated(),
        row(Self::StringNotIn, "StringNotIn", Takes::Texts, "is none of").negated().passes_without_key(),
        row(Self::IsNullOrUndefined, "IsNullOrUndefined", Takes::Nothing, "is null or missing").passes_without_key(),
        row(Self::IsNotNull, "IsNotNull", Takes::Nothing, "exists and is not null"),
    ];

    /// Returns the row of the operator.
    pub fn row(self) -> &'static OperatorRow {
        &Self::ALL[self as usize]
    }

    /// Azure's name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The operator of that name, in any letter case.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut rows = Self::ALL.iter();
        let row = rows.find(|row| row.name.eq_ignore_ascii_case(name));
        row.map(|row| row.operator)
    }
}

const fn row(
    operator: Operator,
    name: &'static str,
    takes: Takes,
    meaning: &'static str,
) -> OperatorRow {
    OperatorRow {
        operator,
        name,
        takes,
        negated: false,
        passes_without_key: false,
        meaning,
    }
}

impl OperatorRow {
    const fn negated(self) -> Self {
        Self {
            negated: true,
            ..self
        }
    }

    const fn passes_without_key(self) -> Self {
        Self {
            passes_without_key: true,
            ..self
        }
    }
}

const _: () = {
    let mut index = 0;
    while index < Operator::ALL.len() {
        assert!(Operator::ALL[index].operator as usize == index);
        index += 1;
    }
};
