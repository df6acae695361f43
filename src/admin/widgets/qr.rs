//! A text as a picture for phones.

use askama::Template;
use qrcode::{Color, EcLevel, QrCode};

use crate::admin::widgets::part;

/// Modules around the picture that stay empty, as readers expect (ISO/IEC 18004).
const QUIET_ZONE: usize = 4;

#[derive(Clone, Debug, Template)]
#[template(path = "widgets/qr.html")]
pub(crate) struct Qr {
    /// Modules from side to side, the quiet zone included.
    side: usize,
    path: String,
}

part!(Qr);

impl Qr {
    /// The picture of `text`; `None` if it is too long for one.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
        let width = code.width();
        let modules = code.to_colors();
        let dark = modules
            .iter()
            .enumerate()
            .filter(|(_, color)| **color == Color::Dark);
        let square = |(index, _): (usize, &Color)| {
            let (x, y) = (index % width + QUIET_ZONE, index / width + QUIET_ZONE);
            format!("M{x} {y}h1v1h-1z")
        };
        Some(Self {
            side: width + 2 * QUIET_ZONE,
            path: dark.map(square).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_corners_and_room_around() {
        let qr = Qr::new("hello").expect("a picture");
        assert_eq!(qr.side, 21 + 8, "version 1");
        assert!(qr.path.starts_with("M4 4h1v1h-1z"), "the corner is dark");
        assert!(qr.path.contains("M24 4h1"), "so is the one on the right");
        assert!(!qr.path.contains("M24 24h1"), "and the last one is none");
        assert!(Qr::new(&"x".repeat(5_000)).is_none());
    }
}
