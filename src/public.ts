// What both entries have in common.

export { type DeviceType, NET, NetFeature } from './device-types.js';
export type { RingFormat } from './engine/engine.js';
export type { Region } from './engine/regions.js';
export { type ErrorCode, type Fault, VringError } from './errors.js';
export {
  Feature,
  type Features,
  featureMask,
  featureSet,
  featuresOfWords,
  featureWord,
  LegacyFeature,
} from './features.js';
export type { Host, MemoryOptions } from './host.js';
export type { MemoryLike } from './memory.js';
export {
  Negotiation,
  type NegotiationOptions,
  type NegotiationState,
  type TransportKind,
} from './negotiation.js';
export { Burst } from './queue/burst.js';
export type { Completions } from './queue/completions.js';
export type { DeviceQueue, DeviceQueueOptions, Element, Piece } from './queue/device-queue.js';
export type { Completion, DriverQueue, DriverQueueOptions, IndirectOptions } from './queue/driver-queue.js';
export type { Elements } from './queue/elements.js';
export type { DeviceInspection, DriverInspection } from './queue/inspect/inspect.js';
export type { Areas, QueueOptions, Segment } from './queue/queue.js';
export type { DeviceState, DriverState } from './queue/state.js';
export type { QueueStats } from './stats.js';
export { DeviceStatus, type DeviceStatusOptions, Status } from './status.js';
export type { AccessWidth, PciFunction } from './transport/pci/function.js';
export type { Msix } from './transport/pci/msix.js';
export type { NotificationSource, PciQueue, PciQueueSetup } from './transport/pci/queue.js';
export { type ConfigField, type PciOptions, PciTransport } from './transport/pci/transport.js';
