// What the tests of the allocators call: a module of its own, compiled by test/support/allocators.ts and never
// shipped.

import { TableList } from '../../../assembly/indirect/list';
import { Tables } from '../../../assembly/indirect/tables';
import { General } from '../../../assembly/mm/general';
import { Pages } from '../../../assembly/mm/pages';
import { SlabCache } from '../../../assembly/mm/slab';

// ---- Pages ----

export function pagesBytes(total: u32): u32 {
  return offsetof<Pages>() + Pages.bytes(total);
}

export function pagesInit(self: usize, total: u32): void {
  changetype<Pages>(self).init(total, self + offsetof<Pages>());
}

export function pagesReset(self: usize): void {
  changetype<Pages>(self).reset();
}

export function pagesAlloc(self: usize, order: u32): u32 {
  return changetype<Pages>(self).alloc(order);
}

export function pagesTake(self: usize, page: u32, order: u32): bool {
  return changetype<Pages>(self).take(page, order);
}

export function pagesFree(self: usize, page: u32, order: u32): void {
  changetype<Pages>(self).free(page, order);
}

export function pagesTaken(self: usize): u32 {
  return changetype<Pages>(self).taken;
}

export function pagesAllocs(self: usize): f64 {
  return <f64>changetype<Pages>(self).allocs;
}

export function pagesFrees(self: usize): f64 {
  return <f64>changetype<Pages>(self).frees;
}

export function pagesFailures(self: usize): f64 {
  return <f64>changetype<Pages>(self).failures;
}

// ---- A general allocator, with one more slab cache and a list ----

@unmanaged
class Granules {
  general: General;
  cache: SlabCache;
  list: TableList;
}

export function granulesBytes(pages: u32, shift: u32): u32 {
  return (
    offsetof<Granules>() +
    offsetof<General>() +
    offsetof<SlabCache>() +
    offsetof<TableList>() +
    General.bytes(pages, shift)
  );
}

export function granulesInit(self: usize, pages: u32, shift: u32): void {
  const granules = changetype<Granules>(self);
  let at = self + offsetof<Granules>();
  granules.general = changetype<General>(at);
  at += offsetof<General>();
  granules.cache = changetype<SlabCache>(at);
  at += offsetof<SlabCache>();
  granules.list = changetype<TableList>(at);
  at += offsetof<TableList>();
  granules.general.init(pages, shift, at);
  granules.cache.init(granules.general, 0);
  granules.list.init(granules.general);
}

export function granulesReset(self: usize): void {
  const granules = changetype<Granules>(self);
  granules.general.reset();
  granules.cache.init(granules.general, granules.cache.granules);
  granules.list.init(granules.general);
}

export function granulesPages(self: usize): usize {
  return changetype<usize>(changetype<Granules>(self).general.pages);
}

export function granulesAllocRun(self: usize, count: u32): u32 {
  return changetype<Granules>(self).general.alloc(count);
}

export function granulesRoomOf(self: usize, count: u32): u32 {
  return changetype<Granules>(self).general.roomOf(count);
}

export function granulesRoom(self: usize, granule: u32): u32 {
  return changetype<Granules>(self).general.room(granule);
}

export function granulesRestore(self: usize, granule: u32, granules: u32): void {
  changetype<Granules>(self).general.restore(granule, granules);
}

export function granulesFree(self: usize, granule: u32): void {
  changetype<Granules>(self).general.free(granule);
}

export function granulesFreeBulk(self: usize, granules: usize, n: u32): void {
  changetype<Granules>(self).general.freeBulk(granules, n);
}

export function granulesShrink(self: usize): void {
  changetype<Granules>(self).general.shrink();
}

export function cacheOpen(self: usize, granules: u32): void {
  changetype<Granules>(self).cache.granules = granules;
}

export function cacheClose(self: usize): void {
  changetype<Granules>(self).cache.close();
}

export function cacheAlloc(self: usize): u32 {
  return changetype<Granules>(self).cache.alloc();
}

export function cacheAllocBulk(self: usize, granules: usize, n: u32): u32 {
  return changetype<Granules>(self).cache.allocBulk(granules, n);
}

export function cacheGrown(self: usize): f64 {
  return <f64>changetype<Granules>(self).cache.grown;
}

export function listPush(self: usize, granule: u32): void {
  changetype<Granules>(self).list.push(granule);
}

export function listPop(self: usize): u32 {
  return changetype<Granules>(self).list.pop();
}

export function listTrim(self: usize, length: u32): void {
  changetype<Granules>(self).list.trim(length);
}

export function listLength(self: usize): u32 {
  return changetype<Granules>(self).list.length;
}

// ---- Tables, and what must not happen to them ----

export function tablesBytes(pages: u32, shift: u32): u32 {
  return Tables.bytes(pages, shift);
}

export function tablesInit(self: usize, pages: u32, shift: u32): void {
  changetype<Tables>(self).init(0, pages, shift);
}

export function tablesConfigure(self: usize, strategy: u32, descriptors: u32, bound: u32): void {
  changetype<Tables>(self).configure(strategy, descriptors, bound, 0);
}

export function tablesAlloc(self: usize, count: u32, more: u32): u32 {
  return changetype<Tables>(self).alloc(count, more);
}

export function tablesFree(self: usize, table: u32, count: u32): void {
  changetype<Tables>(self).free(table, count);
}

export function tablesSettle(self: usize): void {
  changetype<Tables>(self).settle();
}

export function tablesClear(self: usize): void {
  changetype<Tables>(self).clear();
}

/** Takes a table of which the books say nothing. */
export function tablesLoseTable(self: usize): void {
  changetype<Tables>(self).general.alloc(1);
}

/** The same with a page. */
export function tablesLosePage(self: usize): void {
  changetype<Tables>(self).general.pages.alloc(0);
}
