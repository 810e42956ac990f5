// What both entries have in common.
export type { Region } from './engine/regions.js';
export { type ErrorCode, type Fault, VringError } from './errors.js';
export { Feature } from './features.js';
export type { Host, MemoryOptions } from './host.js';
export type { MemoryLike } from './memory.js';
export { Burst } from './queue/burst.js';
export type { Completions } from './queue/completions.js';
export type { DeviceQueue, DeviceQueueOptions, Element, Piece } from './queue/device-queue.js';
export type { Completion, DriverQueue, DriverQueueOptions, IndirectOptions } from './queue/driver-queue.js';
export type { Elements } from './queue/elements.js';
export type { Areas, QueueOptions, RingFormat, Segment } from './queue/queue.js';
export type { QueueStats } from './stats.js';
