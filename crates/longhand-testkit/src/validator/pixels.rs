//! The size of a picture, read from the header of a base64 text.

/// Returns width and height of a PNG or JPEG.
pub(super) fn pixels_of(base64: &str) -> Option<(u32, u32)> {
    // The size of a JPEG may come after long metadata; this much is read of any picture.
    let head = &base64.as_bytes()[..base64.len().min(64 * 1024)];
    let bytes = decode(head)?;
    png(&bytes).or_else(|| jpeg(&bytes))
}

fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let side = |at: usize| Some(u32::from_be_bytes(header.get(at..at + 4)?.try_into().ok()?));
    (header.get(4..8)? == b"IHDR").then_some((side(8)?, side(12)?))
}

fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut segments = bytes.strip_prefix(b"\xff\xd8")?;
    loop {
        let [0xff, marker, high, low, ..] = *segments else { return None };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let is_frame = matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
        if is_frame {
            let side = |at: usize| {
                Some(u32::from(u16::from_be_bytes(segments.get(at..at + 2)?.try_into().ok()?)))
            };
            return Some((side(7)?, side(5)?));
        }
        segments = segments.get(2 + length..)?;
    }
}

fn decode(base64: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(base64.len() * 3 / 4);
    for group in base64.chunks_exact(4) {
        let mut word = 0_u32;
        for letter in group {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' => 0,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        bytes.extend(&word.to_be_bytes()[1..]);
    }
    Some(bytes)
}
