//! The parser of SQL filters and actions. Errors give the column.

use crate::model::rule::message::{PropertyRef, PropertyScope};
use crate::model::rule::property::PropertyValue;
use crate::model::rule::sql::expression::{
    Arithmetic, ComparisonOperator, Expression, ExpressionUse, Like,
};
use crate::model::rule::sql::token::{Located, SqlToken, tokens};
use crate::model::rule::sql::{
    NAMED_BYTES_MAX, Parameters, STATEMENTS_MAX, SqlError, Statement, TEXT_MAX,
};

/// How deep expressions may be nested.
const DEPTH_MAX: usize = 32;

/// Keywords, which are names only in brackets or quotes.
const KEYWORDS: [&str; 13] = [
    "AND", "ESCAPE", "EXISTS", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "REMOVE", "SET",
    "TRUE",
];

const SYSTEM: &str = "sys";
const USER: &str = "user";

type Parsed<T> = Result<T, SqlError>;

/// Parses `text` as the condition of a filter.
pub(super) fn filter(text: &str, parameters: &Parameters) -> Parsed<Expression> {
    let mut parser = SqlParser::new(text, parameters)?;
    let condition = parser.condition()?;
    parser.end("AND, OR or the end of the filter")?;
    Ok(condition)
}

/// Parses `text` as the statements of an action.
pub(super) fn action(text: &str, parameters: &Parameters) -> Parsed<Vec<Statement>> {
    let mut parser = SqlParser::new(text, parameters)?;
    let mut statements = Vec::new();
    while statements.is_empty() || parser.peek() != &SqlToken::End {
        if statements.len() == STATEMENTS_MAX {
            return Err(parser.fault(format!("an action has at most {STATEMENTS_MAX} statements")));
        }
        statements.push(parser.statement()?);
        while parser.take_sign(";") {}
    }
    Ok(statements)
}

struct SqlParser<'a> {
    tokens: Vec<Located>,
    at: usize,
    depth: usize,
    parameters: &'a Parameters,
    /// The total bytes of the parameter values used so far, counted once per use.
    named_bytes: usize,
}

impl<'a> SqlParser<'a> {
    fn new(text: &str, parameters: &'a Parameters) -> Parsed<Self> {
        let length = text.chars().count();
        if length > TEXT_MAX {
            return Err(SqlError {
                column: TEXT_MAX + 1,
                problem: format!("there are {length} characters; at most {TEXT_MAX} are allowed"),
            });
        }
        Ok(Self {
            tokens: tokens(text)?,
            at: 0,
            depth: 0,
            parameters,
            named_bytes: 0,
        })
    }

    fn statement(&mut self) -> Parsed<Statement> {
        if self.take_keyword("SET") {
            let property = self.property()?;
            self.sign("=")?;
            return Ok(Statement::Set(property, self.value()?));
        }
        if self.take_keyword("REMOVE") {
            return Ok(Statement::Remove(self.property()?));
        }
        Err(self.expected("SET or REMOVE"))
    }

    fn condition(&mut self) -> Parsed<Expression> {
        let column = self.column();
        let found = self.or()?;
        check(found, ExpressionUse::Condition, column)
    }

    /// Parses an expression that can be an operand or the value of a SET statement.
    fn value(&mut self) -> Parsed<Expression> {
        let column = self.column();
        let found = self.sum()?;
        check(found, ExpressionUse::Value, column)
    }

    fn or(&mut self) -> Parsed<Expression> {
        self.chain("OR", Self::and, Expression::Or)
    }

    fn and(&mut self) -> Parsed<Expression> {
        self.chain("AND", Self::not, Expression::And)
    }

    fn chain(
        &mut self,
        keyword: &str,
        mut part: impl FnMut(&mut Self) -> Parsed<Expression>,
        join: fn(Box<Expression>, Box<Expression>) -> Expression,
    ) -> Parsed<Expression> {
        let column = self.column();
        let mut left = part(self)?;
        let mut checked = false;
        while self.take_keyword(keyword) {
            if !checked {
                left = check(left, ExpressionUse::Condition, column)?;
                checked = true;
            }
            let column = self.column();
            let right = check(part(self)?, ExpressionUse::Condition, column)?;
            left = join(Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed<Expression> {
        if !self.take_keyword("NOT") {
            return self.test();
        }
        self.nested(|parser| {
            let column = parser.column();
            let inner = check(parser.not()?, ExpressionUse::Condition, column)?;
            Ok(Expression::Not(Box::new(inner)))
        })
    }

    fn test(&mut self) -> Parsed<Expression> {
        let column = self.column();
        let left = self.sum()?;
        if self.take_keyword("IS") {
            let negated = self.take_keyword("NOT");
            self.keyword("NULL")?;
            let Expression::Property(property) = left else {
                let problem = "only a property can be compared with IS NULL".to_owned();
                return Err(SqlError { column, problem });
            };
            return Ok(negate(negated, Expression::IsNull(property)));
        }
        if let Some(comparison) = self.comparison() {
            let left = check(left, ExpressionUse::Value, column)?;
            let right = self.value()?;
            return Ok(Expression::Comparison(
                Box::new(left),
                comparison,
                Box::new(right),
            ));
        }
        let negated = self.take_keyword("NOT");
        if self.take_keyword("IN") {
            let left = check(left, ExpressionUse::Value, column)?;
            let list = self.list()?;
            return Ok(negate(negated, Expression::In(Box::new(left), list)));
        }
        if self.take_keyword("LIKE") {
            let text = check(left, ExpressionUse::Value, column)?;
            let pattern = self.value()?;
            let escape = if self.take_keyword("ESCAPE") {
                Some(self.value()?)
            } else {
                None
            };
            let like = Like {
                text,
                pattern,
                escape,
            };
            return Ok(negate(negated, Expression::Like(Box::new(like))));
        }
        if negated {
            Err(self.expected("IN or LIKE"))
        } else {
            Ok(left)
        }
    }

    fn comparison(&mut self) -> Option<ComparisonOperator> {
        let signs = [
            ("=", ComparisonOperator::Equal),
            ("<>", ComparisonOperator::NotEqual),
            ("!=", ComparisonOperator::NotEqual),
            (">", ComparisonOperator::Greater),
            (">=", ComparisonOperator::GreaterOrEqual),
            ("<", ComparisonOperator::Less),
            ("<=", ComparisonOperator::LessOrEqual),
        ];
        let found = signs.into_iter().find(|(sign, _)| self.take_sign(sign));
        found.map(|(_, comparison)| comparison)
    }

    fn list(&mut self) -> Parsed<Vec<Expression>> {
        self.sign("(")?;
        let mut list = vec![self.value()?];
        while self.take_sign(",") {
            list.push(self.value()?);
        }
        self.sign(")")?;
        Ok(list)
    }

    fn sum(&mut self) -> Parsed<Expression> {
        let signs = [("+", Arithmetic::Add), ("-", Arithmetic::Subtract)];
        self.arithmetic(&signs, Self::product)
    }

    fn product(&mut self) -> Parsed<Expression> {
        let signs = [
            ("*", Arithmetic::Multiply),
            ("/", Arithmetic::Divide),
            ("%", Arithmetic::Remainder),
        ];
        self.arithmetic(&signs, Self::factor)
    }

    fn arithmetic(
        &mut self,
        signs: &[(&str, Arithmetic)],
        part: fn(&mut Self) -> Parsed<Expression>,
    ) -> Parsed<Expression> {
        let column = self.column();
        let mut left = part(self)?;
        while let Some((_, sign)) = signs.iter().find(|(sign, _)| self.take_sign(sign)) {
            left = check(left, ExpressionUse::Value, column)?;
            let column = self.column();
            let right = check(part(self)?, ExpressionUse::Value, column)?;
            left = Expression::Arithmetic(Box::new(left), *sign, Box::new(right));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Parsed<Expression> {
        if self.take_sign("+") {
            return self.nested(|parser| {
                let column = parser.column();
                check(parser.factor()?, ExpressionUse::Value, column)
            });
        }
        if !self.take_sign("-") {
            return self.primary();
        }
        // Parse the sign together with the number, because the smallest number has no positive counterpart.
        if let SqlToken::Integer(number) = *self.peek() {
            let number = -i128::from(number);
            return self.integer(number);
        }
        self.nested(|parser| {
            let column = parser.column();
            let inner = check(parser.factor()?, ExpressionUse::Value, column)?;
            Ok(Expression::Negative(Box::new(inner)))
        })
    }

    fn integer(&mut self, number: i128) -> Parsed<Expression> {
        let Ok(number) = i64::try_from(number) else {
            let problem = "the number is too large: whole numbers have 64 bits";
            return Err(self.fault(problem.to_owned()));
        };
        self.at += 1;
        Ok(Expression::Constant(PropertyValue::long(number)))
    }

    fn primary(&mut self) -> Parsed<Expression> {
        let constant = |value| Ok(Expression::Constant(value));
        match self.peek().clone() {
            SqlToken::Integer(number) => return self.integer(i128::from(number)),
            SqlToken::Double(number) => {
                self.at += 1;
                return constant(PropertyValue::Double(number));
            }
            SqlToken::Text(text) => {
                self.at += 1;
                return constant(PropertyValue::Text(text));
            }
            SqlToken::Parameter(name) => return self.parameter(&name),
            SqlToken::Sign("(") => {
                return self.nested(|parser| {
                    parser.sign("(")?;
                    let inner = parser.or()?;
                    parser.sign(")")?;
                    Ok(inner)
                });
            }
            SqlToken::Word(_) | SqlToken::Name(_) | SqlToken::Sign(_) | SqlToken::End => {}
        }
        for (keyword, value) in [
            ("TRUE", PropertyValue::Bool(true)),
            ("FALSE", PropertyValue::Bool(false)),
            ("NULL", PropertyValue::Null),
        ] {
            if self.take_keyword(keyword) {
                return constant(value);
            }
        }
        if self.take_keyword("EXISTS") {
            self.sign("(")?;
            let property = self.property()?;
            self.sign(")")?;
            return Ok(Expression::Exists(property));
        }
        match self.function() {
            Some(call) => call,
            None => self.property().map(Expression::Property),
        }
    }

    /// Parses a function call; `None` if the next tokens are not a call.
    fn function(&mut self) -> Option<Parsed<Expression>> {
        let SqlToken::Word(word) = self.peek() else {
            return None;
        };
        let name = word.to_ascii_lowercase();
        if self.tokens.get(self.at + 1)?.token != SqlToken::Sign("(") {
            return None;
        }
        Some(match name.as_str() {
            "newid" => {
                self.at += 2;
                self.sign(")").map(|()| Expression::NewId)
            }
            "property" | "p" => {
                self.at += 2;
                self.nested(|parser| {
                    let inner = parser.value()?;
                    parser.sign(")")?;
                    Ok(Expression::PropertyNamed(Box::new(inner)))
                })
            }
            _ => Err(self.fault(format!(
                "{name} is no function; there are newid(), property(name) and p(name)"
            ))),
        })
    }

    fn parameter(&mut self, name: &str) -> Parsed<Expression> {
        // Accept parameter names with or without `@`, because SDKs differ.
        let with_sign = format!("@{name}");
        let mut given = self.parameters.iter();
        let value = given.find(|(each, _)| {
            each.eq_ignore_ascii_case(name) || each.eq_ignore_ascii_case(&with_sign)
        });
        let Some((_, value)) = value else {
            return Err(self.fault(format!("there is no parameter @{name}")));
        };
        self.named_bytes += value.as_value().bytes();
        if self.named_bytes > NAMED_BYTES_MAX {
            let problem = format!(
                "the values of parameters have more than {NAMED_BYTES_MAX} bytes, each counted as often as it is named"
            );
            return Err(self.fault(problem));
        }
        let constant = value.as_value().clone();
        self.at += 1;
        Ok(Expression::Constant(constant))
    }

    fn property(&mut self) -> Parsed<PropertyRef> {
        let is_scope = matches!(self.peek(), SqlToken::Word(_))
            && self.tokens.get(self.at + 1).map(|each| &each.token) == Some(&SqlToken::Sign("."));
        if !is_scope {
            let name = self.name()?;
            let scope = PropertyScope::User;
            return Ok(PropertyRef { scope, name });
        }
        let SqlToken::Word(word) = self.peek() else {
            return Err(self.expected("a property"));
        };
        let scope = match word.to_ascii_lowercase().as_str() {
            SYSTEM => PropertyScope::System,
            USER => PropertyScope::User,
            _ => {
                let problem = format!(
                    "{word} is no scope; properties stand behind {SYSTEM}. or {USER}., and names \
                     with dots in brackets"
                );
                return Err(self.fault(problem));
            }
        };
        self.at += 2;
        let name = self.name()?;
        Ok(PropertyRef { scope, name })
    }

    fn name(&mut self) -> Parsed<String> {
        let name = match self.peek() {
            SqlToken::Name(name) if !name.is_empty() => name.clone(),
            SqlToken::Word(word) if !is_keyword(word) => word.clone(),
            SqlToken::Word(word) => {
                let problem = format!("{word} is a keyword; a property of that name is [{word}]");
                return Err(self.fault(problem));
            }
            SqlToken::Name(_)
            | SqlToken::Parameter(_)
            | SqlToken::Text(_)
            | SqlToken::Integer(_)
            | SqlToken::Double(_)
            | SqlToken::Sign(_)
            | SqlToken::End => return Err(self.expected("a property or a value")),
        };
        self.at += 1;
        Ok(name)
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH_MAX {
            return Err(self.fault(format!("expressions are nested more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let parsed = inner(self);
        self.depth -= 1;
        parsed
    }

    fn peek(&self) -> &SqlToken {
        &self.tokens[self.at].token
    }

    fn column(&self) -> usize {
        self.tokens[self.at].column
    }

    fn take_keyword(&mut self, keyword: &str) -> bool {
        let found =
            matches!(self.peek(), SqlToken::Word(word) if word.eq_ignore_ascii_case(keyword));
        self.at += usize::from(found);
        found
    }

    fn keyword(&mut self, keyword: &str) -> Parsed<()> {
        if self.take_keyword(keyword) {
            Ok(())
        } else {
            Err(self.expected(keyword))
        }
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), SqlToken::Sign(each) if *each == sign);
        self.at += usize::from(found);
        found
    }

    fn sign(&mut self, sign: &str) -> Parsed<()> {
        if self.take_sign(sign) {
            Ok(())
        } else {
            Err(self.expected(sign))
        }
    }

    fn end(&self, otherwise: &str) -> Parsed<()> {
        if self.peek() == &SqlToken::End {
            Ok(())
        } else {
            Err(self.expected(otherwise))
        }
    }

    fn expected(&self, what: &str) -> SqlError {
        let found = match self.peek() {
            SqlToken::Word(word) => word.clone(),
            SqlToken::Name(name) => format!("[{name}]"),
            SqlToken::Parameter(name) => format!("@{name}"),
            SqlToken::Text(text) => format!("'{text}'"),
            SqlToken::Integer(number) => number.to_string(),
            SqlToken::Double(number) => number.to_string(),
            SqlToken::Sign(sign) => (*sign).to_owned(),
            SqlToken::End => "the end".to_owned(),
        };
        self.fault(format!("expected {what}, found {found}"))
    }

    fn fault(&self, problem: String) -> SqlError {
        let column = self.column();
        SqlError { column, problem }
    }
}

fn check(found: Expression, wanted: ExpressionUse, column: usize) -> Parsed<Expression> {
    let is = found.usable_as();
    if is == wanted || is == ExpressionUse::Both {
        return Ok(found);
    }
    let problem = match wanted {
        ExpressionUse::Condition => {
            "expected a condition, found a value: compare it with something"
        }
        ExpressionUse::Value | ExpressionUse::Both => "expected a value, found a condition",
    };
    Err(SqlError {
        column,
        problem: problem.to_owned(),
    })
}

fn negate(negated: bool, condition: Expression) -> Expression {
    if negated {
        Expression::Not(Box::new(condition))
    } else {
        condition
    }
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|each| each.eq_ignore_ascii_case(word))
}
