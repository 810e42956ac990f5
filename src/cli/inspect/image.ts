// A memory image: a file that holds the ring as it lay in memory.

import { Regions } from '../../engine/regions.js';
import { deviceReach, ringBytes } from '../../queue/inspect/bytes.js';
import { type PackedDumpView, packedDump } from '../../queue/inspect/packed-dump.js';
import { type SplitDumpView, splitDump } from '../../queue/inspect/split-dump.js';
import { Translation } from '../../queue/inspect/translation.js';
import { checkAreas, checkSize } from '../../queue/queue.js';

/** Where in an image a ring is. */
export interface ImagePlace {
  ring: 'split' | 'packed';
  size: number;
  /** Offsets of the three areas. */
  descriptor: number;
  driver: number;
  device: number;
}

/** @throws VringError if the areas are not in the image */
export function dumpOfImage(image: Uint8Array, place: ImagePlace): SplitDumpView | PackedDumpView {
  const { ring } = place;
  const size = checkSize(ring, place.size);
  const bytes = image.byteLength;
  const areas = checkAreas(place, ring, size, (address, length) =>
    Number(address) + length <= bytes ? Number(address) : undefined,
  );
  // A copy, so that offsets in the image are offsets in the buffer.
  const { buffer } = new Uint8Array(image);
  const view = ringBytes(buffer, areas, ring, size);
  // Addresses of tables are taken for offsets. Buffers may lie behind the end: an image need not have all.
  const regions = new Regions([{ guest: 0, length: bytes, local: 0 }], bytes);
  const reach = { ...deviceReach(buffer, new Translation(regions, 'lazy')), covers: () => true };
  return ring === 'split' ? splitDump(view, size, reach) : packedDump(view, size, reach);
}
