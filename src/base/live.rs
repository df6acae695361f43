//! Values that are replaced while they are in use.

use std::sync::{Arc, RwLock};

/// A value that can be replaced. Clones share it. Whoever has got one keeps that one.
#[derive(Debug)]
pub struct Live<T>(Arc<RwLock<Arc<T>>>);

impl<T> Live<T> {
    /// Begins with this value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(value))))
    }

    /// The value of now.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap())
    }

    /// Puts another value in its place.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap() = Arc::new(value);
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Default> Default for Live<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_see_the_new_value_and_what_was_got_stays() {
        let live = Live::new(1);
        let (other, before) = (live.clone(), live.get());
        other.set(2);
        assert_eq!((*before, *live.get()), (1, 2));
    }
}
