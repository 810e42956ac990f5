// What the module exports, nothing else. Control blocks and arrays are addresses that the host took from
// its arena; results are described in src/engine/engine.ts.

import { Granules } from './mm/granules';
import { Head, SplitDevice } from './split/device';
import { Buffer, SplitDriver } from './split/driver';

// ---- Bytes of the blocks that the host has to provide ----

export function granulesBytes(): u32 {
  return offsetof<Granules>();
}

export function splitDriverBytes(): u32 {
  return offsetof<SplitDriver>();
}

export function splitDriverBufferBytes(): u32 {
  return offsetof<Buffer>();
}

export function splitDeviceBytes(): u32 {
  return offsetof<SplitDevice>();
}

export function splitDeviceHeadBytes(): u32 {
  return offsetof<Head>();
}

// ---- Table allocator ----

export function granulesInit(self: usize, base: usize, total: u32, bitmap: usize): void {
  changetype<Granules>(self).init(base, total, bitmap);
}

export function granulesTaken(self: usize): u32 {
  return changetype<Granules>(self).taken;
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
  granules: usize,
  eventIdx: bool,
  indirect: bool,
  strict: bool,
): void {
  changetype<SplitDriver>(self).init(
    size,
    desc,
    avail,
    used,
    buffers,
    next,
    changetype<Granules>(granules),
    eventIdx,
    indirect,
    strict,
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

export function splitDriverDetachUnused(self: usize, completion: usize): i32 {
  return changetype<SplitDriver>(self).detachUnused(completion);
}

// ---- Split device ----

export function splitDeviceInit(
  self: usize,
  size: u32,
  desc: usize,
  avail: usize,
  used: usize,
  heads: usize,
  order: usize,
  eventIdx: bool,
  indirect: bool,
): void {
  changetype<SplitDevice>(self).init(size, desc, avail, used, heads, order, eventIdx, indirect);
}

export function splitDeviceReset(self: usize): void {
  changetype<SplitDevice>(self).reset();
}

export function splitDeviceSetRegions(self: usize, regions: usize, count: u32): void {
  changetype<SplitDevice>(self).regionTable.set(regions, count);
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
