// Entry `vring/vhost-user`: devices and drivers that share memory with other processes. Linux, Node, koffi.

export { type Mapping, type MappingOptions, mapFile } from '../linux/mapping.js';
export { createMemfd } from '../linux/memfd.js';
export { Backend, type BackendOptions } from './backend.js';
export type { ConnectionReport } from './connection.js';
export type { Device, RunningQueue } from './device.js';
export { Blk, type BlkCounts, type BlkOptions } from './devices/blk.js';
export { NetEcho, type NetEchoCounts } from './devices/net-echo.js';
export { NetReplay, type NetReplayCounts } from './devices/net-replay.js';
export {
  Frontend,
  type FrontendOptions,
  type FrontendQueueOptions,
  type FrontendReport,
} from './frontend.js';
export type { QueueReport } from './vring.js';
