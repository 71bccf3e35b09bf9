# ComfyUI's and MiniMax's dialects: graphs and requests as pure functions, routes before a service in memory. No sockets, no engine.
tritium_test(api_comfy_graphs LABEL api SOURCES comfy_expression_test.cpp comfy_names_test.cpp comfy_references_test.cpp comfy_refusals_test.cpp
  comfy_translate_test.cpp LINKS tritium_server_comfy nlohmann_json::nlohmann_json)
tritium_test(api_comfy_routes LABEL api SOURCES comfy_files_test.cpp comfy_prompt_test.cpp comfy_queue_test.cpp comfy_socket_test.cpp
  LINKS tritium_server_comfy tritium_test_jobs nlohmann_json::nlohmann_json)
tritium_test(api_minimax LABEL api SOURCES minimax_callback_test.cpp minimax_create_test.cpp minimax_tasks_test.cpp
  LINKS tritium_server_minimax tritium_test_jobs nlohmann_json::nlohmann_json)
tritium_test(api_dialects_openapi LABEL api SOURCES dialects_openapi_test.cpp
  LINKS tritium_server_comfy tritium_server_minimax tritium_server_native tritium_test_jobs nlohmann_json::nlohmann_json)

# A built server that is killed (A17, A18). Not under sanitizers, where it takes minutes.
if(NOT TRITIUM_SANITIZE)
  add_test(NAME api_restart COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/clients/restart.sh $<TARGET_FILE:tritium> ${CMAKE_CURRENT_BINARY_DIR}/restart)
  set_tests_properties(api_restart PROPERTIES LABELS clients TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT "GOMP_SPINCOUNT=1000;TRITIUM_CACHE_DIR=none")
endif()
