// What both entries have in common.

export { type AnyOf, type DeviceType, NET, NetFeature } from './device-types.js';
export type {
  BufferState,
  DeviceRingState,
  DriverRingState,
  ElementState,
  LocalAreas,
  PolicyConfig,
  Position,
  RingFormat,
  TableStrategy,
  ThresholdChange,
  ThresholdState,
  TranslationStrategy,
} from './engine/engine.js';
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
export type { Completion, DriverQueue, DriverQueueOptions, DriverStats } from './queue/driver-queue.js';
export type { Elements } from './queue/elements.js';
export type { IndirectOptions, TableOptions, TableStats, ThresholdStats } from './queue/indirect.js';
export type { ChainView, SegmentView, TableView } from './queue/inspect/chain.js';
export type { DeviceInspection, DriverInspection, TableMemoryView } from './queue/inspect/inspect.js';
export type { EventView, PackedPosition } from './queue/inspect/packed.js';
export type {
  PackedDeviceBody,
  PackedDeviceView,
  PackedElementView,
  PackedPendingView,
} from './queue/inspect/packed-device.js';
export type {
  PackedBufferView,
  PackedDriverBody,
  PackedDriverView,
  PackedUsedView,
} from './queue/inspect/packed-driver.js';
export type { BufferView, ElementView, SideView } from './queue/inspect/side.js';
export type { AvailView, UsedEntryView, UsedView } from './queue/inspect/split.js';
export type { SplitDeviceBody, SplitDeviceView, SplitPendingView } from './queue/inspect/split-device.js';
export type { SplitBufferView, SplitDriverBody, SplitDriverView } from './queue/inspect/split-driver.js';
export type { Areas, QueueOptions, Segment } from './queue/queue.js';
export type { DeviceState, DriverState, SavedQueue } from './queue/state.js';
export type { QueueStats } from './stats.js';
export { DeviceStatus, type DeviceStatusOptions, Status } from './status.js';
export type { AccessWidth, PciFunction } from './transport/pci/function.js';
export type { Msix } from './transport/pci/msix.js';
export type { NotificationSource, PciQueue, PciQueueSetup } from './transport/pci/queue.js';
export { type ConfigField, type PciOptions, PciTransport } from './transport/pci/transport.js';
