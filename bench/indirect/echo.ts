import type { DriverQueue } from '../../src/index.js';

const AVAIL = 0x80;
const USED = 0x8000;

/**
 * The least that a device can do: gives every buffer back in order, without a look at it. In its place stands a
 * processor of its own in the proposal's measurement, where the driver was what limited the throughput.
 */
export function createEcho(driver: DriverQueue, buffer: ArrayBufferLike): (count: number) => void {
  return driver.ring === 'split' ? splitEcho(driver, buffer) : packedEcho(driver, buffer);
}

function splitEcho({ areas, size }: DriverQueue, buffer: ArrayBufferLike): (count: number) => void {
  const u16 = new Uint16Array(buffer);
  const u32 = new Uint32Array(buffer);
  const mask = size - 1;
  const avail = (areas.driver >>> 1) + 2;
  const used = (areas.device >>> 2) + 1;
  const usedIdx = (areas.device >>> 1) + 1;
  let at = 0;
  return (count) => {
    for (let i = 0; i < count; i++) {
      const slot = at & mask;
      u32[used + slot * 2] = u16[avail + slot];
      u32[used + slot * 2 + 1] = 0;
      at = (at + 1) & 0xffff;
    }
    u16[usedIdx] = at;
  };
}

/** Here the length of a chain has to be known: it is counted along the NEXT flags. */
function packedEcho({ areas, size }: DriverQueue, buffer: ArrayBufferLike): (count: number) => void {
  const u16 = new Uint16Array(buffer);
  const u32 = new Uint32Array(buffer);
  const ring = areas.descriptor;
  let slot = 0;
  let wrap = 1;
  return (count) => {
    for (let i = 0; i < count; i++) {
      const head = ring + slot * 16;
      let last = head;
      let slots = 1;
      // The id of a chain stands in its last descriptor.
      for (let at = slot; (u16[(last >>> 1) + 7] & 1) !== 0; slots++) {
        at = at + 1 === size ? 0 : at + 1;
        last = ring + at * 16;
      }
      u16[(head >>> 1) + 6] = u16[(last >>> 1) + 6];
      u32[(head >>> 2) + 2] = 0;
      u16[(head >>> 1) + 7] = wrap !== 0 ? AVAIL | USED : 0;
      slot += slots;
      if (slot >= size) {
        slot -= size;
        wrap ^= 1;
      }
    }
  };
}
