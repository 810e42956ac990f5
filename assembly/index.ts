// What the module exports, nothing else. Control blocks and arrays are addresses that the host took from
// its arena; results are described in src/engine/engine.ts.

import { TranslationCache } from './abi/translation';
import { Tables } from './indirect/tables';
import { Threshold } from './indirect/threshold';
import { PackedDevice } from './packed/device';
import { PackedDriver } from './packed/driver';
import { SplitDevice } from './split/device';
import { SplitDriver } from './split/driver';

// ---- Bytes of the blocks that the host has to provide ----

export function tablesBytes(pages: u32, shift: u32): u32 {
  return Tables.bytes(pages, shift);
}

export function thresholdBytes(): u32 {
  return Threshold.bytes;
}

export function splitDriverBytes(): u32 {
  return offsetof<SplitDriver>();
}

export function splitDeviceBytes(): u32 {
  return offsetof<SplitDevice>();
}

export function packedDriverBytes(): u32 {
  return offsetof<PackedDriver>();
}

export function packedDeviceBytes(): u32 {
  return offsetof<PackedDevice>();
}

// ---- Indirect tables ----

export function tablesInit(self: usize, base: usize, pages: u32, shift: u32): void {
  changetype<Tables>(self).init(base, pages, shift);
}

export function tablesClear(self: usize): void {
  changetype<Tables>(self).clear();
}

export function tablesRestore(self: usize, address: u32, count: u32, room: u32): void {
  changetype<Tables>(self).restore(address, count, room);
}

export function tablesFill(self: usize): void {
  changetype<Tables>(self).fill();
}

export function tablesTrim(self: usize, length: u32): void {
  changetype<Tables>(self).list.trim(length);
}

export function tablesShrink(self: usize): void {
  changetype<Tables>(self).general.shrink();
}

export function tablesLength(self: usize): u32 {
  return changetype<Tables>(self).list.length;
}

export function tablesPages(self: usize): u32 {
  return changetype<Tables>(self).general.pages.taken;
}

export function tablesRoom(self: usize, address: u32): u32 {
  return changetype<Tables>(self).room(address);
}

export function thresholdInit(self: usize, mode: u32, size: u32, value: u32): void {
  changetype<Threshold>(self).init(mode, size, value);
}

// ---- Split driver ----

export function splitDriverInit(
  self: usize,
  size: u32,
  desc: usize,
  avail: usize,
  used: usize,
  buffers: usize,
  next: usize,
  tables: usize,
  threshold: usize,
  eventIdx: bool,
  inOrder: bool,
  indirect: bool,
  strict: bool,
  addressOffset: u64,
): void {
  changetype<SplitDriver>(self).init(
    size,
    desc,
    avail,
    used,
    buffers,
    next,
    changetype<Tables>(tables),
    changetype<Threshold>(threshold),
    eventIdx,
    inOrder,
    indirect,
    strict,
    addressOffset,
  );
}

export function splitDriverReset(self: usize): void {
  changetype<SplitDriver>(self).reset();
}

export function splitDriverNumFree(self: usize): u32 {
  return changetype<SplitDriver>(self).numFree;
}

export function splitDriverInFlight(self: usize): u32 {
  return changetype<SplitDriver>(self).inFlight;
}

export function splitDriverPosition(self: usize): u32 {
  return changetype<SplitDriver>(self).position;
}

export function splitDriverAddBurst(self: usize, segments: usize, tokens: usize, n: u32): i32 {
  return changetype<SplitDriver>(self).addBurst(segments, tokens, n);
}

export function splitDriverKickPrepare(self: usize): i32 {
  return changetype<SplitDriver>(self).kickPrepare();
}

export function splitDriverGetBurst(self: usize, completions: usize, max: u32): i32 {
  return changetype<SplitDriver>(self).getBurst(completions, max);
}

export function splitDriverMoreUsed(self: usize): i32 {
  return changetype<SplitDriver>(self).moreUsed();
}

export function splitDriverDisableCallbacks(self: usize): void {
  changetype<SplitDriver>(self).disableCallbacks();
}

export function splitDriverEnableCallbacksPrepare(self: usize): u32 {
  return changetype<SplitDriver>(self).enableCallbacksPrepare();
}

export function splitDriverPoll(self: usize, opaque: u32): i32 {
  return changetype<SplitDriver>(self).poll(opaque);
}

export function splitDriverEnableCallbacksDelayed(self: usize): i32 {
  return changetype<SplitDriver>(self).enableCallbacksDelayed();
}

export function splitDriverSetTables(
  self: usize,
  strategy: u32,
  descriptors: u32,
  bound: u32,
  prefill: u32,
): void {
  changetype<SplitDriver>(self).setTables(strategy, descriptors, bound, prefill);
}

export function splitDriverDetachUnused(self: usize, completion: usize): i32 {
  return changetype<SplitDriver>(self).detachUnused(completion);
}

export function splitDriverSave(self: usize, words: usize): void {
  changetype<SplitDriver>(self).save(words);
}

export function splitDriverLoad(self: usize, words: usize): void {
  changetype<SplitDriver>(self).load(words);
}

// ---- Split device ----

export function splitDeviceInit(
  self: usize,
  size: u32,
  desc: usize,
  avail: usize,
  used: usize,
  heads: usize,
  fillRing: usize,
  order: usize,
  eventIdx: bool,
  inOrder: bool,
  batches: bool,
  indirect: bool,
  translation: usize,
  eager: bool,
): void {
  changetype<SplitDevice>(self).init(
    size,
    desc,
    avail,
    used,
    heads,
    fillRing,
    order,
    eventIdx,
    inOrder,
    batches,
    indirect,
    changetype<TranslationCache>(translation),
    eager,
  );
}

export function splitDeviceSetRegions(self: usize, regions: usize, count: u32): void {
  changetype<SplitDevice>(self).regionTable.set(regions, count);
}

export function splitDeviceReset(self: usize): void {
  changetype<SplitDevice>(self).reset();
}

export function splitDeviceInFlight(self: usize): u32 {
  return changetype<SplitDevice>(self).inFlight;
}

export function splitDevicePopBurst(
  self: usize,
  elements: usize,
  pieces: usize,
  capacity: u32,
  max: u32,
): i32 {
  return changetype<SplitDevice>(self).popBurst(elements, pieces, capacity, max);
}

export function splitDevicePushBurst(self: usize, elements: usize, n: u32): i32 {
  return changetype<SplitDevice>(self).pushBurst(elements, n);
}

export function splitDeviceFill(self: usize, id: u32, written: u32, offset: u32): i32 {
  return changetype<SplitDevice>(self).fill(id, written, offset);
}

export function splitDeviceFlush(self: usize, n: u32): i32 {
  return changetype<SplitDevice>(self).flush(n);
}

export function splitDeviceDetach(self: usize, id: u32): i32 {
  return changetype<SplitDevice>(self).detach(id);
}

export function splitDeviceRewind(self: usize, n: u32): i32 {
  return changetype<SplitDevice>(self).rewind(n);
}

export function splitDeviceLastPopped(self: usize): i32 {
  return changetype<SplitDevice>(self).lastPopped();
}

export function splitDeviceWritable(self: usize, id: u32): f64 {
  return changetype<SplitDevice>(self).writable(id);
}

export function splitDeviceShouldInterrupt(self: usize): i32 {
  return changetype<SplitDevice>(self).shouldInterrupt();
}

export function splitDeviceEnableNotifications(self: usize): i32 {
  return changetype<SplitDevice>(self).enableNotifications();
}

export function splitDeviceDisableNotifications(self: usize): void {
  changetype<SplitDevice>(self).disableNotifications();
}

export function splitDeviceAvailableBytes(self: usize, maxIn: f64, maxOut: f64): i32 {
  return changetype<SplitDevice>(self).availableBytes(maxIn, maxOut);
}

export function splitDeviceAvailableIn(self: usize): f64 {
  return changetype<SplitDevice>(self).availableIn;
}

export function splitDeviceAvailableOut(self: usize): f64 {
  return changetype<SplitDevice>(self).availableOut;
}

export function splitDeviceSave(self: usize, words: usize): void {
  changetype<SplitDevice>(self).save(words);
}

export function splitDeviceLoad(self: usize, words: usize): void {
  changetype<SplitDevice>(self).load(words);
}

// ---- Packed driver ----

export function packedDriverInit(
  self: usize,
  size: u32,
  ring: usize,
  driverEvent: usize,
  deviceEvent: usize,
  buffers: usize,
  nextId: usize,
  slotId: usize,
  tables: usize,
  threshold: usize,
  eventIdx: bool,
  inOrder: bool,
  indirect: bool,
  strict: bool,
  addressOffset: u64,
): void {
  changetype<PackedDriver>(self).init(
    size,
    ring,
    driverEvent,
    deviceEvent,
    buffers,
    nextId,
    slotId,
    changetype<Tables>(tables),
    changetype<Threshold>(threshold),
    eventIdx,
    inOrder,
    indirect,
    strict,
    addressOffset,
  );
}

export function packedDriverReset(self: usize): void {
  changetype<PackedDriver>(self).reset();
}

export function packedDriverNumFree(self: usize): u32 {
  return changetype<PackedDriver>(self).numFree;
}

export function packedDriverInFlight(self: usize): u32 {
  return changetype<PackedDriver>(self).inFlight;
}

export function packedDriverPosition(self: usize): u32 {
  return changetype<PackedDriver>(self).position;
}

export function packedDriverAddBurst(self: usize, segments: usize, tokens: usize, n: u32): i32 {
  return changetype<PackedDriver>(self).addBurst(segments, tokens, n);
}

export function packedDriverKickPrepare(self: usize): i32 {
  return changetype<PackedDriver>(self).kickPrepare();
}

export function packedDriverGetBurst(self: usize, completions: usize, max: u32): i32 {
  return changetype<PackedDriver>(self).getBurst(completions, max);
}

export function packedDriverMoreUsed(self: usize): i32 {
  return changetype<PackedDriver>(self).moreUsed();
}

export function packedDriverDisableCallbacks(self: usize): void {
  changetype<PackedDriver>(self).disableCallbacks();
}

export function packedDriverEnableCallbacksPrepare(self: usize): u32 {
  return changetype<PackedDriver>(self).enableCallbacksPrepare();
}

export function packedDriverPoll(self: usize, opaque: u32): i32 {
  return changetype<PackedDriver>(self).poll(opaque);
}

export function packedDriverEnableCallbacksDelayed(self: usize): i32 {
  return changetype<PackedDriver>(self).enableCallbacksDelayed();
}

export function packedDriverSetTables(
  self: usize,
  strategy: u32,
  descriptors: u32,
  bound: u32,
  prefill: u32,
): void {
  changetype<PackedDriver>(self).setTables(strategy, descriptors, bound, prefill);
}

export function packedDriverDetachUnused(self: usize, completion: usize): i32 {
  return changetype<PackedDriver>(self).detachUnused(completion);
}

export function packedDriverSave(self: usize, words: usize): void {
  changetype<PackedDriver>(self).save(words);
}

export function packedDriverLoad(self: usize, words: usize): void {
  changetype<PackedDriver>(self).load(words);
}

// ---- Packed device ----

export function packedDeviceInit(
  self: usize,
  size: u32,
  ring: usize,
  driverEvent: usize,
  deviceEvent: usize,
  heads: usize,
  fillRing: usize,
  order: usize,
  eventIdx: bool,
  inOrder: bool,
  batches: bool,
  indirect: bool,
  translation: usize,
  eager: bool,
): void {
  changetype<PackedDevice>(self).init(
    size,
    ring,
    driverEvent,
    deviceEvent,
    heads,
    fillRing,
    order,
    eventIdx,
    inOrder,
    batches,
    indirect,
    changetype<TranslationCache>(translation),
    eager,
  );
}

export function packedDeviceSetRegions(self: usize, regions: usize, count: u32): void {
  changetype<PackedDevice>(self).regionTable.set(regions, count);
}

export function packedDeviceReset(self: usize): void {
  changetype<PackedDevice>(self).reset();
}

export function packedDeviceInFlight(self: usize): u32 {
  return changetype<PackedDevice>(self).inFlight;
}

export function packedDevicePopBurst(
  self: usize,
  elements: usize,
  pieces: usize,
  capacity: u32,
  max: u32,
): i32 {
  return changetype<PackedDevice>(self).popBurst(elements, pieces, capacity, max);
}

export function packedDevicePushBurst(self: usize, elements: usize, n: u32): i32 {
  return changetype<PackedDevice>(self).pushBurst(elements, n);
}

export function packedDeviceFill(self: usize, id: u32, written: u32, offset: u32): i32 {
  return changetype<PackedDevice>(self).fill(id, written, offset);
}

export function packedDeviceFlush(self: usize, n: u32): i32 {
  return changetype<PackedDevice>(self).flush(n);
}

export function packedDeviceDetach(self: usize, id: u32): i32 {
  return changetype<PackedDevice>(self).detach(id);
}

export function packedDeviceRewind(self: usize, n: u32): i32 {
  return changetype<PackedDevice>(self).rewind(n);
}

export function packedDeviceLastPopped(self: usize): i32 {
  return changetype<PackedDevice>(self).lastPopped();
}

export function packedDeviceWritable(self: usize, id: u32): f64 {
  return changetype<PackedDevice>(self).writable(id);
}

export function packedDeviceShouldInterrupt(self: usize): i32 {
  return changetype<PackedDevice>(self).shouldInterrupt();
}

export function packedDeviceEnableNotifications(self: usize): i32 {
  return changetype<PackedDevice>(self).enableNotifications();
}

export function packedDeviceDisableNotifications(self: usize): void {
  changetype<PackedDevice>(self).disableNotifications();
}

export function packedDeviceAvailableBytes(self: usize, maxIn: f64, maxOut: f64): i32 {
  return changetype<PackedDevice>(self).availableBytes(maxIn, maxOut);
}

export function packedDeviceAvailableIn(self: usize): f64 {
  return changetype<PackedDevice>(self).availableIn;
}

export function packedDeviceAvailableOut(self: usize): f64 {
  return changetype<PackedDevice>(self).availableOut;
}

export function packedDeviceSave(self: usize, words: usize): void {
  changetype<PackedDevice>(self).save(words);
}

export function packedDeviceLoad(self: usize, words: usize): void {
  changetype<PackedDevice>(self).load(words);
}

/** Copies within the memory; for the programs that are devices. */
export function copyBytes(to: usize, from: usize, length: usize): void {
  memory.copy(to, from, length);
}
