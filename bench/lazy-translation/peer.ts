import * as L from '../../assembly/abi/layout.js';
import { type DeviceQueue, Feature, loadEngine, type Region } from '../../src/index.js';
import { outSegments, SEGMENT_BYTES, type TranslationOptions } from './options.js';

/** A device, and the least that a driver has to do for it. */
export interface Peer {
  device: DeviceQueue;
  /** Makes the next `n` buffers available, which the device has used before. */
  offer(n: number): void;
}

const PAGE = 4096;
/** Where buffers lie in guest memory if there are several regions: far from each other. */
const guestPage = (page: number): bigint => 0x1_0000_0000n + BigInt(page) * 0x10_0000n;

/** The ring's bytes are written once. What is done for each buffer is what makes it available. */
export async function createPeer(options: TranslationOptions): Promise<Peer> {
  const { ring, size, segments, indirect, regions: count } = options;
  const engine = await loadEngine({ engine: options.engine });
  const descriptors = engine.alloc(size * L.DESC_BYTES, 16);
  const driver = engine.alloc(L.AVAIL_RING + 2 * size + 2, 4);
  const used = engine.alloc(L.USED_RING + L.USED_ELEM_BYTES * size + 2, 4);
  const tables = engine.alloc(size * segments * L.DESC_BYTES, 16);
  const buffers = engine.alloc(Math.max(size * segments * SEGMENT_BYTES, count * PAGE), PAGE);
  const view = new DataView(engine.buffer);
  for (const [at, bytes] of [
    [descriptors, size * L.DESC_BYTES],
    [driver, L.AVAIL_RING + 2 * size + 2],
    [used, L.USED_RING + L.USED_ELEM_BYTES * size + 2],
  ])
    new Uint8Array(engine.buffer).fill(0, at, at + bytes);

  /** Guest address of a segment of a buffer. */
  const address = (buffer: number, segment: number): bigint => {
    const n = buffer * segments + segment;
    if (count === 1) return BigInt(buffers + n * SEGMENT_BYTES);
    return guestPage(n % count) + BigInt((Math.floor(n / count) * SEGMENT_BYTES) % PAGE);
  };
  const describe = (at: number, guest: bigint, length: number, low: number, high: number): void => {
    view.setBigUint64(at, guest, true);
    view.setUint32(at + L.DESC_LEN, length, true);
    view.setUint16(at + 12, low, true);
    view.setUint16(at + 14, high, true);
  };
  const split = ring === 'split';
  for (let i = 0; i < size; i++) {
    const table = tables + i * segments * L.DESC_BYTES;
    for (let s = 0; s < segments; s++) {
      const write = s < outSegments(segments) ? 0 : L.DESC_F_WRITE;
      const next = split && s + 1 < segments ? L.DESC_F_NEXT : 0;
      const flags = write | next;
      const at = indirect ? table + s * L.DESC_BYTES : descriptors + i * L.DESC_BYTES;
      describe(at, address(i, s), SEGMENT_BYTES, split ? flags : i, split ? s + 1 : flags);
    }
    if (indirect) {
      const at = descriptors + i * L.DESC_BYTES;
      const flags = L.DESC_F_INDIRECT;
      describe(at, BigInt(table), segments * L.DESC_BYTES, split ? flags : i, split ? 0 : flags);
    }
    if (split) view.setUint16(driver + L.AVAIL_RING + 2 * i, i, true);
  }

  const features = [Feature.VERSION_1, Feature.EVENT_IDX, Feature.INDIRECT_DESC];
  if (!split) features.push(Feature.RING_PACKED);
  const regions: Region[] = [{ guest: 0, length: engine.buffer.byteLength, local: 0 }];
  if (count > 1)
    for (let page = 0; page < count; page++)
      regions.push({ guest: guestPage(page), length: PAGE, local: buffers + page * PAGE });
  const device = engine.deviceQueue({
    ring,
    size,
    features,
    areas: { descriptor: descriptors, driver, device: used },
    regions,
    translation: options.translation,
  });
  return { device, offer: split ? offerSplit(engine.buffer, driver) : offerPacked() };

  /** The available ring names the same heads in each lap, so only its index moves. */
  function offerSplit(buffer: ArrayBufferLike, avail: number): (n: number) => void {
    const words = new Uint16Array(buffer, avail);
    return (n) => {
      words[L.AVAIL_IDX >>> 1] += n;
    };
  }

  /** The device overwrote length, id and flags of a descriptor; the address still stands. */
  function offerPacked(): (n: number) => void {
    const words = new Uint32Array(engine.buffer, descriptors, size * 4);
    const length = indirect ? segments * L.DESC_BYTES : SEGMENT_BYTES;
    const flags = indirect ? L.DESC_F_INDIRECT : L.DESC_F_WRITE;
    let slot = 0;
    let owner = L.PACKED_DESC_F_AVAIL;
    return (n) => {
      for (let i = 0; i < n; i++) {
        words[slot * 4 + 2] = length;
        words[slot * 4 + 3] = slot | ((flags | owner) << 16);
        if (++slot < size) continue;
        slot = 0;
        owner ^= L.PACKED_DESC_F_AVAIL | L.PACKED_DESC_F_USED;
      }
    };
  }
}
