//! Pictures with real headers, whose size in pixels and in bytes can be chosen.

use crate::rng::Rng;

/// A picture as requests carry it.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// `image/png` or `image/jpeg`.
    pub media_type: &'static str,
    /// The bytes of the file as base64.
    pub base64: String,
}

impl Picture {
    /// Makes a PNG of at least `bytes` bytes; what it shows is noise.
    pub fn png(width: u32, height: u32, bytes: usize, rng: &mut Rng) -> Self {
        let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
        // Eight bits for each of four channels.
        let header = [sides.as_slice(), &[8, 6, 0, 0, 0]].concat();
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        push_chunk(&mut file, *b"IHDR", &header);
        push_chunk(&mut file, *b"IDAT", &noise(bytes, rng));
        push_chunk(&mut file, *b"IEND", &[]);
        Self { media_type: "image/png", base64: base64(&file) }
    }

    /// Makes a JPEG of at least `bytes` bytes; what it shows is noise.
    pub fn jpeg(width: u16, height: u16, bytes: usize, rng: &mut Rng) -> Self {
        let mut file = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec();
        file.extend(b"\xff\xc0\0\x11\x08");
        file.extend(height.to_be_bytes());
        file.extend(width.to_be_bytes());
        file.extend(b"\x03\x01\x22\0\x02\x11\x01\x03\x11\x01");
        file.extend(b"\xff\xda\0\x0c\x03\x01\0\x02\x11\x03\x11\0\x3f\0");
        file.extend(noise(bytes, rng));
        file.extend(b"\xff\xd9");
        Self { media_type: "image/jpeg", base64: base64(&file) }
    }

    /// Writes the picture as an address.
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.base64)
    }
}

fn push_chunk(file: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    let start = file.len();
    file.extend(name);
    file.extend(data);
    let checksum = checksum(&file[start..]);
    file.extend(checksum.to_be_bytes());
}

/// The CRC-32 that ends every chunk of a PNG.
fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// Random bytes without 0xff, which would begin a segment of a JPEG.
fn noise(bytes: usize, rng: &mut Rng) -> Vec<u8> {
    let words = std::iter::repeat_with(|| rng.next_u64().to_be_bytes());
    words.take(bytes.div_ceil(8)).flatten().map(|byte| byte.min(0xfe)).collect()
}

/// Encodes bytes as base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| usize::from(group.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let letter = char::from(LETTERS[word >> shift & 63]);
            text.push(if place <= group.len() { letter } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        let encoded = ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }

    #[test]
    fn chunks_end_in_their_checksum() {
        let png = Picture::png(1, 1, 0, &mut Rng::new(1));
        // The last chunk of every PNG is the same.
        assert!(png.base64.ends_with("AAAAAElFTkSuQmCC"), "{}", png.base64);
    }

    #[test]
    fn sizes_are_as_asked() {
        let png = Picture::png(1280, 720, 225_000, &mut Rng::new(1));
        assert!((300_000..301_000).contains(&png.base64.len()), "{}", png.base64.len());
        let jpeg = Picture::jpeg(640, 480, 100, &mut Rng::new(1));
        assert!(jpeg.data_url().starts_with("data:image/jpeg;base64,/9j/4AAQSkZJRg"));
    }
}
