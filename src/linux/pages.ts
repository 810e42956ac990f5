import { check, failSystem, libc } from './libc.js';

const PROT_READ_WRITE = 3;
const MAP_PRIVATE_ANONYMOUS = 0x22;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

/**
 * Memory at a fixed address, for calls that leave it with the system or hold pointers to it: what the
 * JavaScript engine allocates may move.
 */
export class Pages {
  readonly address: bigint;
  readonly bytes: Uint8Array;
  readonly view: DataView;

  constructor(length: number) {
    const c = libc();
    this.address = c.mmap(0n, length, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
    if (this.address === MAP_FAILED) failSystem(`mmap of ${length} bytes`);
    this.bytes = c.view(this.address, length);
    this.view = new DataView(this.bytes.buffer);
  }

  /** Nothing may look at `bytes` afterwards. */
  free(): void {
    check(libc().munmap(this.address, this.bytes.length), 'munmap');
  }
}
