import { REGION_BYTES, TRANSLATION_BYTES, TRANSLATION_REGIONS, TRANSLATION_WINDOWS } from './layout';
import { Region } from './region';

/**
 * Windows of guest memory that were resolved for the chain (or the query) under way: a chain that goes back and
 * forth between regions finds them here without a search of all. Private memory; what is in it was copied from
 * the region table, never from the ring. With `count` 0 it is empty whatever else it holds.
 */
@unmanaged
export class TranslationCache {
  count: u32;
  /** The window to give up next, once all are taken. */
  next: u32;

  @inline
  private at(index: u32): Region {
    assert(index < <u32>TRANSLATION_WINDOWS);
    return changetype<Region>(changetype<usize>(this) + TRANSLATION_REGIONS + <usize>index * REGION_BYTES);
  }

  /** `lazy`: the one field that makes it safe. The others are written when a window is. */
  @inline
  begin(): void {
    this.count = 0;
  }

  /** `eager`: every byte of it. Stores, because memory.fill is a call out of the module, which takes longer. */
  @inline
  clear(): void {
    const self = changetype<usize>(this);
    store<u64>(self, 0, 0);
    store<u64>(self, 0, 8);
    store<u64>(self, 0, 16);
    store<u64>(self, 0, 24);
    store<u64>(self, 0, 32);
    store<u64>(self, 0, 40);
    store<u64>(self, 0, 48);
    store<u64>(self, 0, 56);
    store<u64>(self, 0, 64);
    store<u64>(self, 0, 72);
    store<u64>(self, 0, 80);
    store<u64>(self, 0, 88);
    store<u64>(self, 0, 96);
  }

  /** The window that holds guest address `guest`, or null. */
  find(guest: u64): Region | null {
    const count = this.count;
    for (let i: u32 = 0; i < count; i++) {
      const window = this.at(i);
      if (guest - window.guest < window.length) return window;
    }
    return null;
  }

  add(region: Region, index: u32): void {
    let place = this.count;
    if (place < <u32>TRANSLATION_WINDOWS) {
      this.count = place + 1;
      this.next = 0;
    } else {
      place = this.next;
      this.next = place + 1 == <u32>TRANSLATION_WINDOWS ? 0 : place + 1;
    }
    const window = this.at(place);
    window.guest = region.guest;
    window.length = region.length;
    window.local = region.local;
    window.index = index;
  }
}

if (
  offsetof<TranslationCache>() != TRANSLATION_REGIONS ||
  TRANSLATION_BYTES != 104 ||
  TRANSLATION_BYTES != TRANSLATION_REGIONS + TRANSLATION_WINDOWS * REGION_BYTES
)
  ERROR('abi/translation.ts and abi/layout.ts disagree');
