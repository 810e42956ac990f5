import { DESC_BYTES, TABLES_PAGE_MAX, TABLES_PAGE_MIN } from '../../assembly/abi/layout.js';
import type { BufferState } from './engine.js';

/** Table memory as pages: how many, and how many granules of 16 bytes each has. */
export interface TablePages {
  pages: number;
  granules: number;
  /** log2 of `granules`. */
  shift: number;
}

/** The largest page of which `length` bytes have sixteen, within the limits: a power of two. */
export function tablePages(length: number): TablePages {
  let bytes = TABLES_PAGE_MIN;
  while (bytes < TABLES_PAGE_MAX && bytes * 32 <= length) bytes *= 2;
  const granules = bytes / DESC_BYTES;
  return { pages: Math.floor(length / bytes), granules, shift: Math.log2(granules) };
}

/** The buffers that have tables, by the address of these. */
export const byTable = (buffers: readonly BufferState[]): BufferState[] =>
  buffers.filter(({ table }) => table !== 0).sort((a, b) => a.table - b.table);
