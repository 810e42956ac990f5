// A singly linked list, last in, first out, of tables that are ready to be used again. Singly linked because
// a table is only ever taken from the front and put in front: the table used last, whose lines are still in
// the processor's cache, is used next, and no other table's record is touched. The links are those of the
// allocator's private memory, one for each granule: nothing is written to a table that is not in use, which
// would bring its cache line back from the device, and nothing that a device can write is followed.

import { NONE } from '../mm/pages';
import { SlabMemory } from '../mm/slab';

@unmanaged
export class TableList {
  memory: SlabMemory;
  /** The first table. */
  private front: u32;
  length: u32;

  init(memory: SlabMemory): void {
    this.memory = memory;
    this.front = NONE;
    this.length = 0;
  }

  /** Puts a table in front. */
  @inline
  push(granule: u32): void {
    const memory = this.memory;
    memory.back(granule);
    memory.linkSet(granule, this.front);
    this.front = granule;
    this.length++;
  }

  /** Takes the first table; NONE if there is none. */
  @inline
  pop(): u32 {
    const memory = this.memory;
    const granule = this.front;
    if (granule == NONE) return NONE;
    this.front = memory.link(granule);
    this.length--;
    memory.hand(granule);
    return granule;
  }

  /** Gives tables back to the allocator until so many are left. */
  trim(length: u32): void {
    while (this.length > length) this.memory.free(this.pop());
  }
}
