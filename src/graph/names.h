/* names.h - the kinds of nodes and their names in the graph: node.name of their visible streams. */
#ifndef PRIMEKNET_GRAPH_NAMES_H
#define PRIMEKNET_GRAPH_NAMES_H

#define ENHANCED_MIC "enhanced_mic"
#define ENHANCED_SPEAKER "enhanced_speaker"
/* ENHANCED_MIC; ENHANCED_MIC "." and the microphone's name; ENHANCED_SPEAKER. */
enum node_kind { NODE_MIC, NODE_MORE_MIC, NODE_SPEAKER };

#endif
