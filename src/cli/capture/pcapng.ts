// The newer capture format (draft-ietf-opsawg-pcapng): blocks, each with its length before and behind, in
// sections, each with a byte order of its own.
import { damaged } from './damage.js';
import { FRAME_BYTES_MAX } from './pcap.js';

const SECTION_HEADER = 0x0a0d0d0a; // reads the same in both byte orders
const INTERFACE_DESCRIPTION = 1;
const PACKET = 2; // obsolete, still found
const SIMPLE_PACKET = 3;
const ENHANCED_PACKET = 6;

const BYTE_ORDER_MAGIC = 0x1a2b3c4d;
/** Bytes of each block around its body: type and length before, length behind. */
const BLOCK_BYTES = 12;
const BODY = 8;

export const isPcapng = (file: DataView): boolean => file.getUint32(0) === SECTION_HEADER;

/** Calls `frame` with offset and length of each frame. */
export function readPcapng(file: DataView, frame: (offset: number, length: number) => void): void {
  const size = file.byteLength;
  let at = 0;
  let little = true;
  /** Most bytes of a frame that each interface of the section captures; 0 is no limit. */
  let snapLengths: number[] = [];
  while (at < size) {
    if (size - at < BLOCK_BYTES)
      damaged(at, `a block of at least ${BLOCK_BYTES} bytes`, `${size - at} bytes before the end`);
    if (file.getUint32(at) === SECTION_HEADER) {
      little = file.getUint32(at + BODY, true) === BYTE_ORDER_MAGIC;
      if (!little && file.getUint32(at + BODY) !== BYTE_ORDER_MAGIC)
        damaged(at + BODY, 'the byte-order magic of a section', hex(file.getUint32(at + BODY)));
      snapLengths = [];
    }
    const type = file.getUint32(at, little);
    const length = file.getUint32(at + 4, little);
    if (length < BLOCK_BYTES || length % 4 !== 0)
      damaged(at + 4, `a block length of at least ${BLOCK_BYTES} and a multiple of 4`, `${length}`);
    if (length > size - at) damaged(at, `a block of ${length} bytes`, `${size - at} bytes before the end`);
    const end = at + length - 4;
    if (file.getUint32(end, little) !== length)
      damaged(end, `the block length ${length} again`, `${file.getUint32(end, little)}`);

    const body = at + BODY;
    const field = (offset: number, what: string): number => {
      if (body + offset + 4 > end) damaged(body + offset, what, 'the end of the block');
      return file.getUint32(body + offset, little);
    };
    const packet = (offset: number, captured: number): void => {
      if (captured > FRAME_BYTES_MAX)
        damaged(at, `a captured length of at most ${FRAME_BYTES_MAX}`, `${captured}`);
      if (body + offset + captured > end)
        damaged(
          body + offset,
          `a frame of ${captured} bytes`,
          `${end - body - offset} bytes before the end of the block`,
        );
      frame(body + offset, captured);
    };

    if (type === SECTION_HEADER) {
      field(4, 'a version');
      const major = file.getUint16(body + 4, little);
      if (major !== 1) damaged(body + 4, 'pcapng version 1', `version ${major}`);
    } else if (type === INTERFACE_DESCRIPTION) {
      snapLengths.push(field(4, 'a snapshot length'));
    } else if (type === ENHANCED_PACKET || type === PACKET) {
      packet(20, field(12, 'a captured length'));
    } else if (type === SIMPLE_PACKET) {
      // Has the original length only; what was captured follows from the first interface.
      if (snapLengths.length === 0) damaged(at, 'an interface description', 'a simple packet block first');
      const original = field(0, 'an original length');
      const limit = snapLengths[0] || original;
      packet(4, Math.min(original, limit));
    }
    // Other types (statistics, names, comments) carry no frames.
    at += length;
  }
}

const hex = (value: number): string => `0x${value.toString(16).padStart(8, '0')}`;
