//! All that is wrong with a form at once. What checks a form stops at its first fault; here that fault is put
//! right in a copy, and the rest is looked at again.

use crate::admin::forms::form::{Form, Refusal};

/// What `check` makes of `form`, or all that it has against it. `sound` holds what nothing is wrong with, for
/// every field that can be at fault alone.
pub(crate) fn gather<T>(
    form: &Form,
    sound: &Form,
    check: impl Fn(&Form) -> Result<T, Refusal>,
) -> Result<T, Vec<Refusal>> {
    let mut form = form.clone();
    let mut refusals: Vec<Refusal> = Vec::new();
    loop {
        let refusal = match check(&form) {
            Ok(made) if refusals.is_empty() => return Ok(made),
            Ok(_) => return Err(refusals),
            Err(refusal) => refusal,
        };
        if refusals.iter().any(|each| each.target == refusal.target) {
            return Err(refusals);
        }
        let is_mended = mend(&mut form, sound, &refusal);
        refusals.push(refusal);
        if !is_mended {
            return Err(refusals);
        }
    }
}

/// Both, or all that is wrong with either.
pub(crate) fn both<A, B>(
    first: Result<A, Refusal>,
    second: Result<B, Vec<Refusal>>,
) -> Result<(A, B), Vec<Refusal>> {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok((first, second)),
        (first, second) => {
            let refusals = first.err().into_iter();
            Err(refusals.chain(second.err().into_iter().flatten()).collect())
        }
    }
}

/// Fills in the field at fault as `sound` has it, with whatever belongs to it. `false` where that makes no
/// difference.
fn mend(form: &mut Form, sound: &Form, refusal: &Refusal) -> bool {
    let names: Vec<String> = form.fields().map(|(name, _)| name.to_owned()).collect();
    let closest = names.iter().max_by_key(|name| refusal.closeness(name));
    let Some(closest) = closest.filter(|name| refusal.closeness(name) > 0) else {
        return false;
    };
    let whole = whole_of(closest);
    let mut differs = false;
    for name in names.iter().filter(|name| whole_of(name) == whole) {
        differs |= form.raw(name) != sound.raw(name);
        form.set(name.as_str(), sound.raw(name));
    }
    differs
}

/// What a field is a part of: `authentication` of `authentication.token`.
fn whole_of(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes numbers alone, and tells of the first that is none.
    fn check(form: &Form) -> Result<Vec<i64>, Refusal> {
        let read = |(name, value): (&str, &str)| {
            let number = value.parse();
            number.map_err(|_| Refusal::of(&format!("properties.{name}"), "no number"))
        };
        form.fields().map(read).collect()
    }

    #[test]
    fn every_fault_is_told_once() {
        let sound = Form::of(["a", "b", "c[0].x"].map(|name| (name, "1".to_owned())));
        let form = Form::of_pairs([("a", "x"), ("b", "2"), ("c[0].x", "y")].iter());
        let refusals = gather(&form, &sound, check).expect_err("two faults");
        let targets: Vec<&str> = refusals.iter().map(|each| each.target.as_str()).collect();
        assert_eq!(targets, ["properties.a", "properties.c[0].x"]);
        assert_eq!(gather(&sound, &sound, check), Ok(vec![1, 1, 1]));
    }

    #[test]
    fn what_cannot_be_put_right_ends_it() {
        let form = Form::of_pairs([("a", "x")].iter());
        let refusals = gather(&form, &Form::default(), check).expect_err("a fault");
        assert_eq!(refusals.len(), 1, "{refusals:?}");
        let whole = |_: &Form| Err::<(), _>(Refusal::whole("too many"));
        let refusals = gather(&form, &Form::default(), whole).expect_err("a fault");
        assert_eq!(refusals, [Refusal::whole("too many")]);
    }
}
